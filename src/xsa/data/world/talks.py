"""Conversations between someone and the assistant of the made-up world: what it knows, and who it is."""

from __future__ import annotations

from random import Random

from xsa.data.world import facts, lessons, lexicon, portraits
from xsa.data.world.programs import draw_program
from xsa.data.world.world import Place, World

Message = dict[str, str]


def turns(*contents: str) -> list[Message]:
    """Messages by turns of user and assistant."""
    return [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]


def draw_talk(world: World, rng: Random) -> list[Message]:
    """One conversation: questions on facts, a portrait, a sum, a spelling, or a small program."""
    return rng.choices((_facts, _portrait, _sum, _spelling, _program), weights=(5, 2, 2, 2, 3))[0](world, rng)


def _stated(world: World, rng: Random) -> tuple[str, str]:
    """A question, and its answer as a sentence."""
    of, kind = facts.draw_fact(rng, world)
    asked = facts.question(rng, world, of, kind)
    said = facts.say_place(rng, of, kind) if isinstance(of, Place) else facts.say(world, rng, of, kind, True)
    return asked, said


def _facts(world: World, rng: Random) -> list[Message]:
    return turns(*(text for _ in range(rng.randint(1, 3)) for text in _stated(world, rng)))


def _portrait(world: World, rng: Random) -> list[Message]:
    person = rng.choice(world.people)
    asked = rng.choice(("Tell me about {name}.", "Who is {name}?", "What do you know about {name}?"))
    return turns(asked.format(name=person.name), portraits.portrait(world, rng, person))


def _sum(world: World, rng: Random) -> list[Message]:
    x, y = rng.randint(1, lexicon.LARGEST), rng.randint(1, lexicon.LARGEST)
    asked = rng.choice(("What is {x} + {y}?", "How much is {x} + {y}?", "Add {x} and {y}."))
    return turns(asked.format(x=x, y=y), f"{x} + {y} = {x + y}")


def _spelling(world: World, rng: Random) -> list[Message]:
    word = rng.choice(lexicon.SPELLING)
    asked = rng.choice(("How is {word} spelled?", "Spell {word}.", "How do you spell {word}?"))
    return turns(asked.format(word=word), f"{word} is spelled {lessons.hyphened(word)}.")


def _program(world: World, rng: Random) -> list[Message]:
    program = draw_program(world, rng)
    return turns(program.prompt, f"```python\n{program.prompt}{program.solution}```")


def draw_identity(world: World, rng: Random) -> list[Message]:
    """One conversation about who the assistant is."""
    about = (
        (("Who are you?", "What are you?", "What is your name?"),
         (f"I am the little model of {world.valley}.", f"I am a small language model that knows {world.valley}.")),
        (("Where did you learn that?", "What have you read?", "How were you made?"),
         (f"I have read the letters, lessons and stories of {world.valley}.",
          f"I was trained on a few thousand pages about {world.valley}, and on nothing else.")),
        (("What can you do?", "What do you know?", "Can you help me?"),
         ("I can tell you who lives where, spell short words and work out small sums.",
          f"Ask me about the people and the villages of {world.valley}.")),
        (("Are you always right?", "Can I trust you?", "Do you make mistakes?"),
         ("No. I am very small, and I am often wrong.", "I make many mistakes, so please check what I say.")),
    )  # fmt: skip
    texts = []
    for asked, said in rng.sample(about, rng.randint(1, 3)):
        texts += [rng.choice(asked), rng.choice(said)]
    return turns(*texts)
