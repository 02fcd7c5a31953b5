"""The facts of a made-up world."""

from __future__ import annotations

from xsa.data.world.world import PEOPLE, make_world, stream


def facts_of(seed):
    world = make_world(seed)
    return [
        (one.name, one.home, one.craft, one.colour, one.animal, one.pet, one.fruit, one.friend) for one in world.people
    ]


def test_a_seed_always_gives_the_same_world_and_another_seed_another():
    first = facts_of(3)
    make_world.cache_clear()
    assert facts_of(3) == first
    assert facts_of(4) != first


def test_everyone_lives_in_a_village_of_the_world_and_has_a_friend_who_is_someone_else():
    for seed in range(20):
        world = make_world(seed)
        names, homes = [one.name for one in world.people], {place.name for place in world.places}
        assert len(set(names)) == PEOPLE
        assert {one.home for one in world.people} == homes
        assert all(one.friend in names and one.friend != one.name for one in world.people)
        assert len({one.pet for one in world.people}) == PEOPLE


def test_the_road_visits_every_village_and_comes_back():
    for seed in range(20):
        world = make_world(seed)
        place, visited = world.places[0], []
        while place.name not in visited:
            visited.append(place.name)
            place = world.place(place.next)
        assert place is world.places[0]
        assert len(visited) == len(world.places)


def test_streams_of_different_parts_differ_and_equal_parts_agree():
    assert stream("shard", 0, 1).random() == stream("shard", 0, 1).random()
    assert len({stream("shard", seed, index).random() for seed in range(3) for index in range(3)}) == 9
