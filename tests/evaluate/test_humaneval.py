from xsa.evaluate.humaneval import graded_program

PROMPT = "import math\n# a note\nfrom typing import List\n\n\ndef f(x):\n    import os\n"
TEST = "def check(candidate):\n    assert candidate(4) == 2\n"


def test_the_first_fenced_block_is_the_code_and_the_prompt_s_imports_precede_it():
    answer = "Here it is:\n```python\ndef f(x):\n    return math.isqrt(x)\n```\nand\n```\nother\n```"
    program = graded_program(answer, PROMPT, TEST, "f")
    assert program.startswith("import math\nfrom typing import List\n\ndef f(x):")
    assert "other" not in program and "Here" not in program and "import os" not in program
    exec(compile(program, "program", "exec"), {})


def test_an_answer_without_a_fence_is_all_code():
    program = graded_program("def f(x):\n    return math.isqrt(x)", PROMPT, TEST, "f")
    exec(compile(program, "program", "exec"), {})
