"""Teachers made of modules, and the tasks they set: the theory's, and few-shot classification."""

from recombine.tasks.hyperteacher._few_shot import (
    Examples as Examples,
    FewShotTasks as FewShotTasks,
)
from recombine.tasks.hyperteacher._generated_teacher import (
    GeneratedTeacher as GeneratedTeacher,
    draw_generated_teacher as draw_generated_teacher,
)
from recombine.tasks.hyperteacher._hyperteacher import (
    NUM_REFERENCE as NUM_REFERENCE,
    TEMPERATURE as TEMPERATURE,
    Hyperteacher as Hyperteacher,
    HyperteacherWorld as HyperteacherWorld,
    make_hyperteacher as make_hyperteacher,
)
from recombine.tasks.hyperteacher._latents import (
    continuous_latents as continuous_latents,
    random_masks as random_masks,
    unit_latents as unit_latents,
)
from recombine.tasks.hyperteacher._masks import (
    is_connected as is_connected,
    is_covered as is_covered,
    is_identifying as is_identifying,
    mask_matrix as mask_matrix,
    masks_of_size as masks_of_size,
    masks_up_to as masks_up_to,
    support_rank as support_rank,
)
from recombine.tasks.hyperteacher._splits import (
    Split as Split,
    SupportName as SupportName,
    make_split as make_split,
    task_codes as task_codes,
    task_digits as task_digits,
)
from recombine.tasks.hyperteacher._task_order import (
    TaskOrder as TaskOrder,
    order_tasks as order_tasks,
)
from recombine.tasks.hyperteacher._teacher_student import (
    ModularTeacher as ModularTeacher,
    TeacherStudent as TeacherStudent,
    draw_modular_teacher as draw_modular_teacher,
)
from recombine.tasks.hyperteacher._theory_supports import (
    NUM_THEORY_MODULES as NUM_THEORY_MODULES,
    THEORY_SUPPORTS as THEORY_SUPPORTS,
    theory_masks as theory_masks,
)
