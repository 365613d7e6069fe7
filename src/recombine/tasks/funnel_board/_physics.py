"""How the ball falls: a rolling disc against line segments, in float64, many boards at once.

The engine behind the published data is another one. This one has its rules: a skin of 0.01 around
edges, the larger of two restitutions, none for impacts slower than 1, friction by the geometric
mean, and a ball that spins. It uses only sums, products, quotients and roots, and every ball meets
only its own board, so that a ball's way depends neither on the machine nor on the other balls.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from recombine.tasks.funnel_board._boards import BALL_RADIUS, PITCH, WHOLE, Board, Size
from recombine.tasks.funnel_board._segments import Bounciness, Things, make_things

GRAVITY = 10.0
TIME_STEP = 1 / 30
SUB_STEPS = 8
STEPS_PER_FRAME = 3
MOST_STEPS = 750
GROUND = -10.5  # the height of the ball's centre at which it lies on a platform
CONTACT = BALL_RADIUS + 0.01
BOUNCING_SPEED = 1.0  # slower impacts do not bounce
PASSES = 3  # contacts that are solved one after the other in a sub-step
MARGIN = 0.05

STANDARD = Bounciness(ball=0.2, slider=0.1, funnel=None)
"""Funnels bounce hard or softly, by a hidden coin each."""

ZERO_BOUNCE = Bounciness(ball=0.05, slider=0.1, funnel=0.02)
"""Nothing bounces to speak of."""


class Falls(NamedTuple):
    """How a batch of balls fell, at the times of the frames."""

    positions: Float[np.ndarray, "items frames 2"]
    velocities: Float[np.ndarray, "items frames 2"]
    lengths: Int[np.ndarray, " items"]
    landed: Bool[np.ndarray, " items"]
    """Whether the ball came to the ground in time and between the outer edges."""
    timed_out: Bool[np.ndarray, " items"]
    columns: Int[np.ndarray, " items"]
    """Below which funnel of the lowest row it landed, from the left."""


class _Balls:
    """The moving state of a batch."""

    def __init__(self, starts: np.ndarray, height: float):
        number = len(starts)
        self.x, self.y = starts.astype(float), np.full(number, height)
        self.vx, self.vy = np.zeros(number), np.full(number, -0.001)
        self.spin = np.zeros(number)  # clockwise

    def only(self, index: np.ndarray) -> None:
        for name in ("x", "y", "vx", "vy", "spin"):
            setattr(self, name, getattr(self, name)[index])


class _Near(NamedTuple):
    """The segments within reach of any ball in this step, sorted by ball."""

    first: np.ndarray  # where each ball's segments start
    owners: np.ndarray  # the balls that have any
    group: np.ndarray  # for each segment, the place of its ball among the owners
    ax: np.ndarray
    ay: np.ndarray
    ex: np.ndarray  # the edge as a vector
    ey: np.ndarray
    inverse: np.ndarray  # of its squared length
    restitution: np.ndarray
    friction: np.ndarray


def simulate(boards: list[Board], bounciness: Bounciness = STANDARD, size: Size = WHOLE) -> Falls:
    """Drops a ball on each board until it lies on a platform (Neitz, thesis, §2.3.1).

    Args:
        boards: all of one size.
        bounciness: of the game.
        size: of the boards.
    """
    number = len(boards)
    things = make_things(boards, bounciness)
    balls = _Balls(np.asarray([board.start for board in boards]), size.start_height)
    most_frames = MOST_STEPS // STEPS_PER_FRAME + 1
    positions = np.zeros((number, most_frames, 2))
    velocities = np.zeros((number, most_frames, 2))
    ground_step = np.full(number, MOST_STEPS + 1)
    ground_x = np.full(number, np.inf)
    falling = np.arange(number)  # which board each of `balls` falls on

    def record(frame: int) -> None:
        positions[falling, frame] = np.stack([balls.x, balls.y], axis=-1)
        velocities[falling, frame] = np.stack([balls.vx, balls.vy], axis=-1)

    record(0)
    for step in range(1, MOST_STEPS + 1):
        touched = _advance(balls, things, falling)
        new = falling[touched & (ground_step[falling] > MOST_STEPS)]
        ground_step[new] = step
        ground_x[new] = balls.x[np.isin(falling, new)]
        if step % STEPS_PER_FRAME == 0:
            record(step // STEPS_PER_FRAME)
            goes_on = ground_step[falling] > MOST_STEPS
            falling = falling[goes_on]
            balls.only(goes_on)
            if not len(falling):
                break
    timed_out = ground_step > MOST_STEPS
    landed = ~timed_out & (np.abs(ground_x) <= size.half_width)
    columns = np.floor((np.where(landed, ground_x, 0.0) + size.half_width) / PITCH[0])
    lengths = -(-ground_step // STEPS_PER_FRAME) + 1
    longest = int(lengths[landed].max()) if landed.any() else 1
    return Falls(
        positions=positions[:, :longest],
        velocities=velocities[:, :longest],
        lengths=np.where(landed, lengths, 0).astype(np.int32),
        landed=landed,
        timed_out=timed_out,
        columns=np.clip(columns, 0, size.columns - 1).astype(np.int32),
    )


def _advance(balls: _Balls, things: list[Things], falling: np.ndarray) -> np.ndarray:
    """Makes one time step; says which balls came to the ground in it."""
    near = _find_near(balls, things, falling)
    touched = np.zeros(len(falling), bool)
    time = TIME_STEP / SUB_STEPS
    for _ in range(SUB_STEPS):
        balls.vy = balls.vy - GRAVITY * time
        balls.x = balls.x + time * balls.vx
        balls.y = balls.y + time * balls.vy
        touched |= balls.y <= GROUND
        for _ in range(PASSES):
            if not _resolve(balls, near):
                break
    return touched


def _find_near(balls: _Balls, things: list[Things], falling: np.ndarray) -> _Near:
    """Collects the segments that a ball could touch within a time step, and some more."""
    speed = np.sqrt(balls.vx * balls.vx + balls.vy * balls.vy) + BALL_RADIUS * np.abs(balls.spin)
    reach = CONTACT + MARGIN + TIME_STEP * (speed + GRAVITY * TIME_STEP)
    parts = []
    for kind in things:
        center, size = kind.center[falling], kind.reach[falling]
        is_near = np.abs(center[..., 0] - balls.x[:, None]) <= size[..., 0] + reach[:, None]
        is_near &= np.abs(center[..., 1] - balls.y[:, None]) <= size[..., 1] + reach[:, None]
        ball, thing = np.nonzero(is_near)
        segments = kind.segments[falling[ball], thing]
        a, b = segments[..., :2], segments[..., 2:]
        x, y = balls.x[ball, None], balls.y[ball, None]
        room = reach[ball, None]
        is_close = np.minimum(a[..., 0], b[..., 0]) <= x + room
        is_close &= np.maximum(a[..., 0], b[..., 0]) >= x - room
        is_close &= np.minimum(a[..., 1], b[..., 1]) <= y + room
        is_close &= np.maximum(a[..., 1], b[..., 1]) >= y - room
        pair, which = np.nonzero(is_close)
        bounce = kind.restitution[falling[ball], thing][pair]
        parts.append((ball[pair], segments[pair, which], bounce, np.full(len(pair), kind.friction)))
    ball, segments, bounce, friction = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(ball, kind="stable")
    ball, segments = ball[order], segments[order]
    owners, first, group = np.unique(ball, return_index=True, return_inverse=True)
    ax, ay, bx, by = np.ascontiguousarray(segments.T)
    ex, ey = bx - ax, by - ay
    inverse = 1 / (ex * ex + ey * ey)
    return _Near(first, owners, group, ax, ay, ex, ey, inverse, bounce[order], friction[order])


def _resolve(balls: _Balls, near: _Near) -> bool:
    """Solves the nearest contact of every ball; says whether there was any."""
    if not len(near.owners):
        return False
    x, y = balls.x[near.owners][near.group], balls.y[near.owners][near.group]
    dx, dy = x - near.ax, y - near.ay
    share = np.clip((dx * near.ex + dy * near.ey) * near.inverse, 0.0, 1.0)
    dx -= share * near.ex
    dy -= share * near.ey
    squared = dx * dx + dy * dy
    least = np.minimum.reduceat(squared, near.first)
    is_contact = least < CONTACT * CONTACT
    if not is_contact.any():
        return False
    # The first of the nearest segments of every ball that is in contact.
    candidates = np.flatnonzero((squared == least[near.group]) & is_contact[near.group])
    keep = np.ones(len(candidates), bool)
    keep[1:] = near.group[candidates[1:]] != near.group[candidates[:-1]]
    chosen = candidates[keep]
    ball = near.owners[near.group[chosen]]
    distance = np.sqrt(squared[chosen])
    safe = np.maximum(distance, 1e-12)
    nx, ny = dx[chosen] / safe, dy[chosen] / safe
    vx, vy, spin = balls.vx[ball], balls.vy[ball], balls.spin[ball]
    approach = vx * nx + vy * ny
    bounce = np.where(-approach > BOUNCING_SPEED, near.restitution[chosen], 0.0)
    push = np.where(approach < 0, -(1 + bounce) * approach, 0.0)
    vx, vy = vx + push * nx, vy + push * ny
    slip = (nx * vy - ny * vx) + spin * BALL_RADIUS  # the surface's speed along (-ny, nx)
    limit = near.friction[chosen] * push
    grip = np.clip(-slip / 3, -limit, limit)
    balls.vx[ball], balls.vy[ball] = vx - grip * ny, vy + grip * nx
    balls.spin[ball] = spin + 2 * grip / BALL_RADIUS
    balls.x[ball] += (CONTACT - distance) * nx
    balls.y[ball] += (CONTACT - distance) * ny
    return True
