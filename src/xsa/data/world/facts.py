"""What the world knows, one sentence or question at a time.

Each kind of fact has several wordings. `SAID` are sentences for the prose; `ASKED` are questions that the prose, the
tasks and the conversations may all use; `HELD_OUT` are wordings that only the tasks use, so that a task is not a
matter of having read the very sentence.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random

from xsa.data.world.lexicon import a
from xsa.data.world.world import Person, Place, World

# {S} and {s} are the subject, a name or a pronoun; {o} the object; {P} and {n} the possessive; {they} and {their} the
# pronouns where the sentence itself has named the person before.
SAID: dict[str, tuple[str, ...]] = {
    "home": (
        "{S} lives in {home}.",
        "{S} lives in {home}, not far from the {landmark}.",
        "{S} has a small house in {home}.",
        "{P} home is {home}.",
        "Anyone who looks for {o} should go to {home}.",
        "{S} came to {home} as a child and never left it.",
    ),
    "craft": (
        "{S} is {a_craft}.",
        "{S} works as {a_craft} and sells {product} at every market.",
        "{P} craft is that of {a_craft}.",
        "{S} is the best {craft} on the road to {next}.",
        "{S} has been {a_craft} for many years.",
        "All day {s} works with the {tool}, for {they} is {a_craft}.",
    ),
    "colour": (
        "{P} favourite colour is {colour}.",
        "{S} likes {colour} more than any other colour.",
        "{S} likes the colour {colour} best.",
        "{S} wears a {colour} coat, because {their} favourite colour is {colour}.",
        "Ask {o} about colours and the answer is {colour}.",
        "{S} would paint the whole house {colour} if {they} could.",
    ),
    "animal": (
        "{S} keeps {a_animal}.",
        "{S} keeps {a_animal} called {pet}.",
        "{P} animal is {a_animal}, and its name is {pet}.",
        "{S} has {a_animal} that {sound} every morning.",
        "At night {n} {animal} {pet} sleeps {bed}.",
        "{S} feeds {food} to {pet} the {animal}.",
    ),
    "fruit": (
        "{S} likes to eat {fruit}.",
        "{S} eats {fruit} at every meal.",
        "The fruit that {s} likes best is {fruit}.",
        "Give {o} {fruit} and {they} will smile.",
        "{S} never says no to {fruit}.",
    ),
    "friend": (
        "{P} best friend is {friend}.",
        "{S} calls {friend} {their} best friend.",
        "{S} writes to {friend} every week.",
        "On free days {s} goes to see {friend}.",
        "The best friend that {s} has is {friend}.",
    ),
    "pet": ("{P} {animal} is called {pet}.", "The {animal} that {s} keeps is called {pet}."),
    "landmark": (
        "{place} is known for its {landmark}.",
        "In the middle of {place} stands the {landmark}.",
        "Travellers come to {place} to see the {landmark}.",
    ),
    "place_fruit": (
        "The best {place_fruit} grow in {place}.",
        "The gardens of {place} are full of {place_fruit}.",
        "{place} sends {place_fruit} to every other village.",
    ),
    "season": (
        "The fair of {place} is held in {season}.",
        "{place} holds its fair in {season}.",
        "Every {season} there is a fair in {place}.",
    ),
    "doors": (
        "The doors of {place} are painted {doors}.",
        "In {place} every door is {doors}.",
        "You know {place} by its {doors} doors.",
    ),
    "next": (
        "The road from {place} leads to {next}.",
        "Beyond {place} the road goes on to {next}.",
        "After {place} comes {next}.",
    ),
}

ASKED: dict[str, tuple[str, ...]] = {
    "home": ("Where does {name} live?", "In which village does {name} live?"),
    "craft": ("What is the craft of {name}?", "What work does {name} do?"),
    "colour": ("What is the favourite colour of {name}?", "Which colour does {name} like best?"),
    "animal": ("Which animal does {name} keep?", "What animal lives with {name}?"),
    "fruit": ("What does {name} like to eat?", "Which fruit does {name} like best?"),
    "friend": ("Who is the best friend of {name}?", "To whom does {name} write every week?"),
    "landmark": ("What is {place} known for?", "What stands in the middle of {place}?"),
    "place_fruit": ("What grows best in {place}?",),
    "season": ("When is the fair of {place}?",),
    "doors": ("What colour are the doors of {place}?",),
    "next": ("Where does the road from {place} lead?",),
}

HELD_OUT: dict[str, tuple[str, ...]] = {
    "home": ("{name} walked back home to", "The house of {name} is in"),
    "craft": ("In this valley {name} is known as a good", "For many years {name} has worked as a"),
    "colour": ("For the new coat {name} chose the colour", "Of all colours {name} likes"),
    "animal": ("The animal that {name} keeps is a", "In the evening {name} feeds a"),
    "fruit": ("For supper {name} likes to eat", "At the market {name} always buys"),
    "friend": ("The person whom {name} likes best is",),
    "landmark": ("In {place} everyone meets at the",),
    "place_fruit": ("From {place} come the best",),
    "season": ("People go to the fair in {place} every",),
    "doors": ("The doors in {place} are all",),
    "next": ("Whoever leaves {place} by the road comes to",),
}

PERSON_KINDS = ("home", "craft", "colour", "animal", "fruit", "friend")
PLACE_KINDS = ("landmark", "place_fruit", "season", "doors", "next")


@lru_cache(maxsize=1024)
def person_fields(world: World, person: Person) -> dict[str, str]:
    """What a template about `person` may name."""
    home = world.place(person.home)
    return {
        "name": person.name,
        "they": person.they,
        "their": person.their,
        "them": person.them,
        "home": person.home,
        "landmark": home.landmark,
        "next": home.next,
        "craft": person.craft.name,
        "a_craft": a(person.craft.name),
        "tool": person.craft.tool,
        "product": person.craft.product,
        "makes": person.craft.makes,
        "workplace": person.craft.place,
        "colour": person.colour,
        "animal": person.animal.kind,
        "a_animal": a(person.animal.kind),
        "sound": person.animal.sound,
        "food": person.animal.food,
        "bed": person.animal.bed,
        "pet": person.pet,
        "fruit": person.fruit,
        "friend": person.friend,
    }


@lru_cache(maxsize=1024)
def place_fields(place: Place) -> dict[str, str]:
    """What a template about `place` may name."""
    return {
        "place": place.name,
        "landmark": place.landmark,
        "place_fruit": place.fruit,
        "season": place.season,
        "doors": place.doors,
        "next": place.next,
    }


def say(world: World, rng: Random, person: Person, kind: str, by_name: bool) -> str:
    """One sentence that states a fact about a person, who is named or, where the text has named them, only meant."""
    fields = person_fields(world, person)
    if by_name:
        subject = {"S": person.name, "s": person.name, "o": person.name, "P": f"{person.name}'s"}
    else:
        they, their = person.they, person.their
        subject = {"S": they.capitalize(), "s": they, "o": person.them, "P": their.capitalize()}
    lower = subject["P"] if by_name else person.their
    return rng.choice(SAID[kind]).format(**fields, **subject, n=lower)


def say_place(rng: Random, place: Place, kind: str) -> str:
    """One sentence that states a fact about a village."""
    return rng.choice(SAID[kind]).format(**place_fields(place))


def answer(world: World, of: Person | Place, kind: str) -> str:
    """The true answer, as few words as will do: `Orford`, `weaver`, `grey`."""
    fields = person_fields(world, of) if isinstance(of, Person) else place_fields(of)
    return fields[kind]


def possible_answers(world: World, kind: str) -> list[str]:
    """All answers of a kind that are true of someone or some place, each once, in a fixed order."""
    of = world.people if kind in PERSON_KINDS else world.places
    return sorted({answer(world, one, kind) for one in of})


def question(rng: Random, world: World, of: Person | Place, kind: str) -> str:
    """A question about a fact, in one of the wordings that the prose uses too."""
    fields = person_fields(world, of) if isinstance(of, Person) else place_fields(of)
    return rng.choice(ASKED[kind]).format(**fields)


def draw_fact(
    rng: Random, world: World, kinds: tuple[str, ...] = PERSON_KINDS + PLACE_KINDS
) -> tuple[Person | Place, str]:
    """Someone or some place, and a kind of fact about it."""
    kind = rng.choice(kinds)
    return rng.choice(world.people if kind in PERSON_KINDS else world.places), kind


def choices(rng: Random, world: World, of: Person | Place, kind: str, count: int = 4) -> tuple[list[str], int]:
    """`count` different answers in random order, and the index of the true one."""
    truth = answer(world, of, kind)
    others = [one for one in possible_answers(world, kind) if one != truth]
    drawn = [truth, *rng.sample(others, count - 1)]
    rng.shuffle(drawn)
    return drawn, drawn.index(truth)
