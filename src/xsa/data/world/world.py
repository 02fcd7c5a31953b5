"""A small made-up world: who lives where, what they do and whom they like, all of it drawn from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random

from xsa.data.world import lexicon
from xsa.data.world.lexicon import Animal, Craft

PEOPLE = 12
PLACES = 6
CRAFTS = 8
ANIMALS = 6
COLOURS = 8
FRUITS = 8


@dataclass(frozen=True, eq=False)
class Place:
    name: str
    landmark: str
    fruit: str
    season: str  # of its fair
    doors: str  # their colour
    next: str  # where its road leads


@dataclass(frozen=True, eq=False)
class Person:
    name: str
    she: bool
    home: str
    craft: Craft
    colour: str
    animal: Animal
    pet: str  # the animal's own name
    fruit: str
    friend: str

    @property
    def they(self) -> str:
        return "she" if self.she else "he"

    @property
    def their(self) -> str:
        return "her" if self.she else "his"

    @property
    def them(self) -> str:
        return "her" if self.she else "him"


@dataclass(frozen=True, eq=False)
class World:
    """The facts that every text, task and conversation of one seed agrees on."""

    seed: int
    valley: str
    people: tuple[Person, ...]
    places: tuple[Place, ...]
    crafts: tuple[Craft, ...]
    animals: tuple[Animal, ...]
    colours: tuple[str, ...]
    fruits: tuple[str, ...]

    def person(self, name: str) -> Person:
        return next(person for person in self.people if person.name == name)

    def place(self, name: str) -> Place:
        return next(place for place in self.places if place.name == name)


def stream(*parts: object) -> Random:
    """A random stream of its own for each list of parts, the same in every process and on every machine."""
    return Random("/".join(str(part) for part in parts))


@lru_cache(maxsize=8)
def make_world(seed: int) -> World:
    """The world of `seed`. Whoever asks with the same seed is told the same facts."""
    rng = stream("world", seed)
    crafts = tuple(rng.sample(lexicon.CRAFTS, CRAFTS))
    animals = tuple(rng.sample(lexicon.ANIMALS, ANIMALS))
    colours = tuple(rng.sample(lexicon.COLOURS, COLOURS))
    fruits = tuple(rng.sample(lexicon.FRUITS, FRUITS))
    places = _places(rng, colours, fruits)
    people = _people(rng, places, crafts, animals, colours, fruits)
    valley = rng.choice(lexicon.VALLEYS)
    return World(seed, valley, people, places, crafts, animals, colours, fruits)


def _spread(rng: Random, values: tuple, count: int) -> list:
    """`count` of `values` in random order, each as often as any other to within one."""
    order = rng.sample(values, len(values))
    drawn = [order[i % len(order)] for i in range(count)]
    rng.shuffle(drawn)
    return drawn


def _places(rng: Random, colours: tuple[str, ...], fruits: tuple[str, ...]) -> tuple[Place, ...]:
    starts = rng.sample(lexicon.PLACE_STARTS, PLACES)
    ends = rng.sample(lexicon.PLACE_ENDS, PLACES)
    names = [start + end for start, end in zip(starts, ends, strict=True)]
    drawn = zip(
        names,
        rng.sample(lexicon.LANDMARKS, PLACES),
        _spread(rng, fruits, PLACES),
        _spread(rng, lexicon.SEASONS, PLACES),
        _spread(rng, colours, PLACES),
        names[1:] + names[:1],
        strict=True,
    )
    return tuple(Place(*row) for row in drawn)


def _people(rng: Random, places, crafts, animals, colours, fruits) -> tuple[Person, ...]:
    half = PEOPLE // 2
    names = [(name, True) for name in rng.sample(lexicon.SHE, half)]
    names += [(name, False) for name in rng.sample(lexicon.HE, PEOPLE - half)]
    rng.shuffle(names)
    friends = names[1:] + names[:1]  # a ring: everyone is somebody's friend, nobody their own
    homes = _spread(rng, tuple(place.name for place in places), PEOPLE)
    drawn = zip(
        names,
        homes,
        _spread(rng, crafts, PEOPLE),
        _spread(rng, colours, PEOPLE),
        _spread(rng, animals, PEOPLE),
        _spread(rng, fruits, PEOPLE),
        friends,
        strict=True,
    )
    pets = rng.sample(lexicon.PETS, PEOPLE)
    people = []
    for (name, she), home, craft, colour, animal, fruit, (friend, _) in drawn:
        people.append(Person(name, she, home, craft, colour, animal, pets.pop(), fruit, friend))
    rng.shuffle(people)
    return tuple(people)
