"""The goal grid against breadth-first search in plain Python, and what its tasks must keep."""

import dataclasses
from collections import deque

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks.goal_grid import (
    FACTORS,
    NEAREST_START,
    NUM_STEPS,
    NUM_TASKS,
    SIZE,
    GoalScene,
    GoalState,
    GoalTask,
    draw_goal_split,
    expert_actions,
    make_goal_grid,
    make_goal_split,
    make_maze,
    observe,
    quadrant_cells,
    step,
    task_factors,
)
from recombine.tasks.grid_pictures import draw_frames
from recombine.tasks.grids import neighbor_cells, random_cells
from recombine.tasks.trajectories import save_picture


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


GOLDEN = [
    *((72, 50), (74, 34), (73, 26), (73, 28), (73, 28)),
    *((72, 48), (75, 32), (72, 46), (73, 26), (73, 28)),
]
"""Free cells and the longest shortest way of the mazes with the seeds 2020 to 2029."""


def search(walls, start):
    """Distances from a cell, by breadth-first search over coordinates."""
    distance, queue = {start: 0}, deque([start])
    while queue:
        row, column = queue.popleft()
        for r, c in ((row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)):
            inside = 0 <= r < len(walls) and 0 <= c < len(walls)
            if inside and not walls[r][c] and (r, c) not in distance:
                distance[r, c] = distance[row, column] + 1
                queue.append((r, c))
    return distance


def slow_distances(walls):
    """Distances between all cells; as many as there are cells where there is no way."""
    found = np.full((walls.size, walls.size), walls.size)
    for row, column in np.argwhere(~walls).tolist():
        for (r, c), number in search(walls.tolist(), (row, column)).items():
            found[row * len(walls) + column, r * len(walls) + c] = number
    return found


@pytest.fixture(scope="module")
def source():
    return make_goal_grid(num_mazes=8)


@pytest.fixture(scope="module")
def worlds(source):
    return jax.jit(lambda keys: jax.vmap(source.begin)(keys))(jr.split(jr.key(0), 3))


@pytest.fixture(scope="module")
def world(worlds):
    return jax.tree.map(lambda leaf: leaf[0], worlds)


def test_mazes_are_those_of_the_reference_generator():
    for number, (num_free, longest) in enumerate(GOLDEN):
        walls = make_maze(2020 + number)
        distances = slow_distances(walls)[~walls.reshape(-1)][:, ~walls.reshape(-1)]
        assert (int((~walls).sum()), int(distances.max())) == (num_free, longest)


def test_distances_are_those_of_a_slow_search(world):
    assert world.mazes.walls.shape == (5, SIZE, SIZE)
    assert len({maze.tobytes() for maze in np.asarray(world.mazes.walls)}) == 5
    for number in range(5):
        walls = np.asarray(world.mazes.walls[number])
        slow = slow_distances(walls)
        np.testing.assert_array_equal(world.mazes.distances[number], slow)
        free = ~walls.reshape(-1)
        assert (slow[free] < walls.size).any(axis=1).all()
        far = (slow >= NEAREST_START) & (slow < walls.size)
        assert far[free].any(axis=1).all()  # a start for every goal
        # Which moves shorten the way, from the coordinates.
        for cell in np.flatnonzero(free)[::9]:
            row, column = divmod(cell, SIZE)
            for move, (r, c) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
                to = (row + r, column + c)
                is_open = min(to) >= 0 and max(to) < SIZE and not walls[to]
                nearer = slow[to[0] * SIZE + to[1]] < slow[cell] if is_open else False
                np.testing.assert_array_equal(
                    world.mazes.shortens[number, :, cell, move][free],
                    np.broadcast_to(nearer, 121)[free],
                )


def test_small_mazes_differ_and_their_scenes_keep_to_them():
    source = make_goal_grid(num_mazes=20, size=5, nearest_start=4, num_steps=17)
    mazes = np.asarray(source.walls)
    assert mazes.shape == (20, 5, 5)
    assert len({maze.tobytes() for maze in mazes}) == 20
    assert source.num_inputs == 25 * 7
    ways = [slow_distances(maze)[~maze.reshape(-1)][:, ~maze.reshape(-1)] for maze in mazes]
    assert max(way.max() for way in ways) == 16  # and the interaction: 17 rows

    @eqx.filter_jit
    def draw(key):
        world = source.begin(key)
        latents = source.sample_latents(world, "ood", key, 40)
        scene, state = jax.vmap(lambda latent, key: source.start(world, latent, key))(
            latents, jr.split(key, 40)
        )
        return world, scene, state, source.tasks_of(world, latents, key)

    world, scene, state, tasks = jax.tree.map(np.asarray, draw(jr.key(0)))
    assert tasks.query.inputs.shape == (40, 17, 175)
    away = world.mazes.distances[scene.task.maze, scene.goal, state.cell]
    assert away.min() >= 4
    assert away.max() < 25  # never cut off
    rows, columns = np.divmod(scene.goal, 5)
    np.testing.assert_array_equal(2 * (rows >= 3) + (columns >= 3), scene.task.quadrant)
    seen = tasks.query.inputs.reshape(40, 17, 25, 7)
    walls = world.mazes.walls.reshape(5, 1, 25)[scene.task.maze]
    np.testing.assert_array_equal(seen[..., 5], np.broadcast_to(walls, (40, 17, 25)))


def test_moves_stop_at_walls_and_edges():
    walls = np.zeros((3, 4), bool)
    walls[1, 1] = True
    table = neighbor_cells(walls)
    assert table[0].tolist() == [0, 1, 4, 0]
    assert table[1].tolist() == [1, 2, 1, 0]  # below is the wall
    assert table[5].tolist() == [5, 5, 5, 5]
    assert table[11].tolist() == [7, 11, 11, 10]


def test_random_cells_are_distinct_and_allowed():
    allowed = jnp.arange(20) % 3 == 0
    cells = jax.jit(jax.vmap(lambda key: random_cells(key, allowed, 4)))(jr.split(jr.key(0), 700))
    assert all(len(set(row)) == 4 for row in cells.tolist())
    counts = np.bincount(np.ravel(cells[:, 0]), minlength=20)
    assert not counts[~np.asarray(allowed)].any()
    assert counts[np.asarray(allowed)].min() > 65  # 100 on average


def test_quadrants_have_the_sizes_of_the_reference():
    cells = jax.vmap(quadrant_cells)(jnp.arange(4))
    assert cells.sum(axis=1).tolist() == [36, 30, 30, 25]
    assert (cells.sum(axis=0) == 1).all()
    assert bool(cells[1, 10])
    assert bool(cells[2, 110])


# Splits.


def test_splits_have_the_published_sizes():
    train, held_out = make_goal_split("non-compositional")
    assert (len(train), len(held_out)) == (150, 50)
    assert set(task_factors(held_out)[:, 0]) == {3}
    train, held_out = make_goal_split("at-most", max_active=2)
    assert len(train) + len(held_out) == NUM_TASKS
    assert (task_factors(train) > 0).sum(axis=1).max() == 2
    # 1 + (3 + 1 + 4 + 4) + (3 + 12 + 12 + 4 + 4 + 16)
    assert len(train) == 64


@pytest.mark.parametrize(
    ("support", "settings"),
    [
        ("non-compositional", {}),
        *(("at-most", {"max_active": number}) for number in (1, 2, 3)),
    ],
)
def test_no_task_is_both_trained_and_held_out(support, settings):
    train, held_out = (set(part.tolist()) for part in make_goal_split(support, **settings))
    assert train
    assert held_out
    assert not train & held_out
    assert train | held_out == set(range(NUM_TASKS))
    order = make_goal_grid(support, num_mazes=5, **settings).order
    assert set(order.train.tolist()) == train
    assert set(order.held_out.tolist()) == held_out


@pytest.mark.parametrize("num_held_out", [50, 180])
def test_random_splits_show_every_value_of_every_factor(num_held_out):
    draw = jax.jit(jax.vmap(lambda key: draw_goal_split(key, num_held_out)))
    trains, others = draw(jr.split(jr.key(0), 60))
    for train, held_out in zip(trains.tolist(), others.tolist(), strict=True):
        assert sorted(train + held_out) == list(range(NUM_TASKS))
        factors = task_factors(np.array(train))
        assert [len(set(column)) for column in factors.T] == list(FACTORS)
    assert len({tuple(train) for train in trains.tolist()}) == 60


# Scenes and steps.


@pytest.fixture(scope="module")
def started(source, world):
    def one(key):
        latent_key, start_key = jr.split(key)
        latent = source.sample_latents(world, "valid", latent_key, 1)[0]
        return latent, *source.start(world, latent, start_key)

    return eqx.filter_jit(jax.vmap(one))(jr.split(jr.key(1), 600))


def test_scenes_are_as_the_task_says(started, world):
    latents, scene, state = jax.tree.map(np.asarray, started)
    assert (latents.sum(axis=(1, 2)) == 4).all()
    factors = latents.argmax(axis=-1)
    np.testing.assert_array_equal(np.stack(scene.task, axis=1), factors)
    walls, distances = np.asarray(world.mazes.walls), np.asarray(world.mazes.distances)
    rows, columns = np.divmod(scene.goal, SIZE)
    np.testing.assert_array_equal(2 * (rows >= 6) + (columns >= 6), scene.task.quadrant)
    in_maze = walls.reshape(5, -1)[scene.task.maze]
    every = np.arange(600)
    for cells in (scene.goal, state.cell, *scene.cells.T):
        assert not in_maze[every, cells].any()
    assert distances[scene.task.maze, scene.goal, state.cell].min() == NEAREST_START
    assert (distances[scene.task.maze, scene.goal, state.cell] < 121).all()
    assert all(len(set(row)) == 4 for row in scene.cells.tolist())
    assert (scene.types != scene.task.goal_type[:, None]).all()
    assert np.bincount(scene.types.ravel(), minlength=5).min() > 400  # of 480
    hides = (scene.cells == scene.goal[:, None]).any(axis=1).mean()
    assert 0.02 < hides < 0.1  # 4 of about 73 cells


def test_distractors_can_be_kept_off_the_goal(started, source, world):
    careful = dataclasses.replace(source, exclude_goal_cell=True)
    latent = started[0][0]
    start = jax.jit(jax.vmap(lambda key: careful.start(world, latent, key)[0]))
    scene = start(jr.split(jr.key(1), 300))
    assert not (scene.cells == scene.goal[:, None]).any()


def scene_by_hand(interaction=1, goal=0):
    task = GoalTask(*(jnp.int32(number) for number in (0, interaction, 2, 3)))
    return GoalScene(task, jnp.int32(goal), jnp.array([4, 5, 6, 7]), jnp.array([0, 1, 2, 4]))


def test_only_the_right_interaction_on_the_goal_is_rewarded(world):
    take = jax.jit(lambda scene, state, action: step(world.mazes, scene, state, action))
    goal = int(np.flatnonzero(~np.asarray(world.mazes.walls[2]).reshape(-1))[0])
    for interaction in (0, 1):
        scene = scene_by_hand(interaction, goal)
        for action in (4, 5):
            for cell in (goal, goal + 1):
                state = GoalState(jnp.int32(cell), jnp.bool_(False))
                after, reward = take(scene, state, jnp.int32(action))
                is_right = cell == goal and action == 4 + interaction
                assert float(reward) == float(is_right)
                assert bool(after.is_over) == is_right
                assert int(after.cell) == cell
        over = GoalState(jnp.int32(goal), jnp.bool_(True))
        for action in range(6):
            after, reward = take(scene, over, jnp.int32(action))
            assert eqx.tree_equal(after, over)
            assert float(reward) == 0.0


def test_what_is_seen(world):
    scene = scene_by_hand(goal=30)
    state = GoalState(jnp.int32(13), jnp.bool_(False))
    see = jax.jit(observe)
    seen = np.asarray(see(world.mazes, scene, state)).reshape(121, 7)
    np.testing.assert_array_equal(seen[:, 5], np.asarray(world.mazes.walls[2]).reshape(-1))
    assert np.flatnonzero(seen[:, 6]).tolist() == [13]
    expected = np.zeros((121, 5))
    expected[[4, 5, 6, 7, 30], [0, 1, 2, 4, 3]] = 1.0
    np.testing.assert_array_equal(seen[:, :5], expected)
    hidden = scene._replace(goal=jnp.int32(5))
    seen = np.asarray(see(world.mazes, hidden, state)).reshape(121, 7)
    expected[30] = 0.0
    np.testing.assert_array_equal(seen[:, :5], expected)


# Demonstrations.


@pytest.fixture(scope="module")
def tasks(source, world):
    return eqx.filter_jit(source.sample_set)(world, "valid", jr.key(2), 60)


def test_demonstrations_take_a_shortest_way_and_interact_at_its_end(started, source, world):
    _, scene, state = started
    some = jax.tree.map(lambda leaf: leaf[:150], (scene, state))
    play = eqx.filter_jit(jax.vmap(lambda scene, state: source.demonstrate(world, scene, state)))
    rollout, targets = jax.tree.map(np.asarray, play(*some))
    scene, state = jax.tree.map(np.asarray, some)
    distances = np.asarray(world.mazes.distances)[scene.task.maze, scene.goal, state.cell]
    lengths = rollout.counts.sum(axis=1)
    np.testing.assert_array_equal(lengths, distances + 1)
    assert lengths.min() >= 12
    assert lengths.max() <= 61
    assert 16 < lengths.mean() < 23
    np.testing.assert_array_equal(rollout.rewards.sum(axis=1), 1.0)
    assert rollout.last.is_over.all()
    is_interaction = (rollout.actions >= 4) & rollout.counts
    assert (is_interaction.sum(axis=1) == 1).all()
    for number in range(150):
        last = lengths[number] - 1
        assert rollout.actions[number, last] == 4 + scene.task.interaction[number]
        # The map between two shown states is one move long.
        walls = np.asarray(world.mazes.walls)[scene.task.maze[number]]
        table = neighbor_cells(walls)
        cells = rollout.states.cell[number, : last + 1]
        moves = rollout.actions[number, :last]
        np.testing.assert_array_equal(table[cells[:-1], moves], cells[1:])
    rows = targets[rollout.counts]
    np.testing.assert_array_equal(rows.argmax(axis=-1), rollout.actions[rollout.counts])
    assert (rows.max(axis=-1) == 1.0).all()
    several = ((rows > 0).sum(axis=-1) > 1).mean()
    assert 0.0 < several < 0.15


def starts_of(part):
    """What is seen first in every demonstration: goal, distractors, maze and agent."""
    return [rows[0].tobytes() for rows in np.asarray(part.inputs)]


def test_the_expert_reaches_every_goal_from_every_cell_by_a_shortest_way(world):
    """One maze, all pairs: nobody takes more steps than breadth-first search does."""

    def expert(goal, cell):
        return expert_actions(world.mazes, scene_by_hand(goal=goal), cell)[0]

    every = jnp.arange(SIZE**2)
    table = jax.jit(jax.vmap(jax.vmap(expert, in_axes=(None, 0)), in_axes=(0, None)))(every, every)
    walls = np.asarray(world.mazes.walls[2])  # the maze of the scene
    table, moves, distances = np.asarray(table), neighbor_cells(walls), slow_distances(walls)
    free = np.flatnonzero(~walls)
    goals, cells = (pairs.ravel() for pairs in np.meshgrid(free, free, indexing="ij"))
    left = distances[goals, cells]
    assert len(goals) > 70**2
    assert left.max() < SIZE**2  # every goal can be reached
    for _ in range(left.max()):
        actions = table[goals, cells]
        np.testing.assert_array_equal(actions >= 4, left == 0)  # interacts there and nowhere else
        after = moves[cells, np.minimum(actions, 3)]
        cells = np.where(left == 0, cells, after)
        left = np.maximum(left - 1, 0)
        np.testing.assert_array_equal(distances[goals, cells], left)  # each step is one nearer
    np.testing.assert_array_equal(cells, goals)
    np.testing.assert_array_equal(table[goals, cells], 5)  # the scene's interaction is the second


def test_tasks_are_one_demonstration_to_see_and_one_to_do(tasks, source, world):
    assert tasks.support.inputs.shape == tasks.query.inputs.shape == (60, NUM_STEPS, 847)
    assert tasks.query.targets.shape == (60, NUM_STEPS, 6)
    inputs = np.asarray(tasks.query.inputs).reshape(60, NUM_STEPS, 121, 7)
    assert (inputs[..., 6].sum(axis=-1) == 1).all()
    assert not (inputs[..., 5] * inputs[..., 6]).any()  # never inside a wall
    assert not np.array_equal(tasks.support.inputs, tasks.query.inputs)
    for part in (tasks.support, tasks.query):
        weights = np.asarray(part.weights)
        assert (np.diff(weights, axis=1) <= 0).all()
    again = eqx.filter_jit(source.sample_set)(world, "valid", jr.key(2), 60)
    assert eqx.tree_equal(again, tasks)
    shown, asked = (starts_of(part) for part in (tasks.support, tasks.query))
    assert all(a != b for a, b in zip(shown, asked, strict=True))  # another scene of the task
    assert len({*shown, *asked}) == 120


def test_a_row_shows_what_its_state_shows(tasks, world):
    """The source makes observations of an episode at once; one by one they are the same."""
    latent = np.asarray(tasks.latent[0])
    inputs = np.asarray(tasks.support.inputs[0]).reshape(NUM_STEPS, 121, 7)
    np.testing.assert_array_equal(
        inputs[0, :, 5], np.asarray(world.mazes.walls)[latent[2].argmax()].reshape(-1)
    )
    assert (inputs[:, :, :6] == inputs[:1, :, :6]).all()
    cells = inputs[..., 6].argmax(axis=-1)
    steps = int(tasks.support.weights[0].sum())
    assert (np.diff(cells)[: steps - 1] != 0).all()


def test_held_out_tasks_are_never_trained(source, world):
    trained, held_out = (
        {
            tuple(row)
            for row in np.asarray(source.sample_latents(world, name, jr.key(0), 2000))
            .argmax(axis=-1)
            .tolist()
        }
        for name in ("test", "ood")
    )
    assert len(trained) == 150
    assert len(held_out) == 50
    assert not trained & held_out


def test_seeds_draw_their_mazes_and_splits(worlds):
    assert len({mazes.tobytes() for mazes in np.asarray(worlds.mazes.walls)}) == 3
    assert len({order.tobytes() for order in np.asarray(worlds.combinations.tasks)}) == 3


def test_a_support_with_too_few_tasks_to_be_drawn_is_a_fixed_one():
    source = make_goal_grid("at-most", max_active=1, num_mazes=5)
    world = source.begin(jr.key(0))
    assert (
        sorted(world.combinations.train.tolist())
        == make_goal_split("at-most", max_active=1)[0].tolist()
    )


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"support": "connected"}, LookupError, "no fixed split is called 'connected'"),
        ({"held_out": 0.95}, ValueError, "`held_out` is a share"),
        ({"num_mazes": 4}, ValueError, "a seed has 5 mazes"),
        ({"num_support": 0}, ValueError, "`num_support` must be at least 1"),
        ({"support": "at-most", "max_active": 4}, ValueError, "counts factors"),
        ({"size": 6}, ValueError, "`size` must be odd and at least 5; got 6"),
        ({"size": 5, "num_mazes": 21}, ValueError, "not enough different mazes of size 5: 20"),
        ({"size": 5}, ValueError, "no cell is farther away than 7 moves; `nearest_start` is 11"),
        ({"size": 5, "nearest_start": 4, "num_steps": 9}, ValueError, "`num_steps` is 9"),
    ],
)
def test_bad_sources_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        make_goal_grid(**{"num_mazes": 5, **arguments})


def test_without_held_out_tasks_there_is_no_such_set(source, world):
    everything = make_goal_grid(num_mazes=5, held_out=0.0)
    assert everything.sets == ("valid", "test")
    with pytest.raises(LookupError, match="no set is called 'ood'"):
        everything.sample_latents(world, "ood", jr.key(0), 1)


def test_a_rollout_can_be_drawn(started, source, world, tmp_path):
    _, scene, state = jax.tree.map(lambda leaf: leaf[0], started)

    @eqx.filter_jit
    def film(scene, state):
        rollout, _ = source.demonstrate(world, scene, state)
        return source.film(world, scene, rollout.states)

    shown = film(scene, state)
    frames = draw_frames(shown, pixels=6)
    assert frames.shape == (NUM_STEPS, 66, 66, 3)
    walls = np.asarray(world.mazes.walls)[int(scene.task.maze)]
    row, column = np.argwhere(walls)[0]
    assert (frames[:, row * 6 : row * 6 + 6, column * 6 : column * 6 + 6] == 120).all()
    goal = divmod(int(scene.goal), SIZE)
    corner = frames[0, goal[0] * 6, goal[1] * 6].tolist()
    assert corner == [200, 30, 30]
    assert save_picture(frames[:3], tmp_path / "film.png", scale=1).stat().st_size > 200
    with pytest.raises(ValueError, match="`pixels`"):
        draw_frames(shown, pixels=2)
