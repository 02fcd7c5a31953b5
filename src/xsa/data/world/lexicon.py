"""The words that a made-up world is drawn from. Nothing here depends on a seed."""

from __future__ import annotations

from typing import NamedTuple


class Craft(NamedTuple):
    name: str
    tool: str
    makes: str  # the verb that goes with the product
    product: str
    place: str  # of work, with its preposition


class Animal(NamedTuple):
    kind: str
    sound: str
    food: str
    bed: str


CRAFTS = tuple(
    Craft(*row)
    for row in (
        ("baker", "oven", "makes", "bread", "in the bakehouse"),
        ("smith", "hammer", "makes", "horseshoes", "at the forge"),
        ("weaver", "loom", "makes", "blankets", "in the loft"),
        ("potter", "wheel", "makes", "bowls", "in the kiln yard"),
        ("fisher", "net", "catches", "trout", "on the jetty"),
        ("carpenter", "saw", "makes", "chairs", "in the workshop"),
        ("miller", "millstone", "grinds", "flour", "at the mill"),
        ("tailor", "needle", "makes", "coats", "in the sewing room"),
        ("gardener", "spade", "grows", "cabbages", "in the walled garden"),
        ("beekeeper", "smoker", "gathers", "honey", "in the bee yard"),
        ("shepherd", "crook", "brings", "wool", "on the high meadow"),
        ("cooper", "mallet", "makes", "barrels", "in the cellar"),
        ("printer", "press", "prints", "books", "in the print shop"),
        ("cobbler", "awl", "makes", "boots", "in the corner shop"),
    )
)

ANIMALS = tuple(
    Animal(*row)
    for row in (
        ("goat", "bleats", "hay", "in the shed"),
        ("dog", "barks", "bones", "by the door"),
        ("cat", "purrs", "fish", "on the window sill"),
        ("goose", "honks", "grass", "beside the pond"),
        ("hare", "thumps", "clover", "in the tall grass"),
        ("donkey", "brays", "carrots", "in the stable"),
        ("hen", "clucks", "corn", "in the coop"),
        ("pony", "neighs", "oats", "under the lime tree"),
        ("duck", "quacks", "weed", "among the reeds"),
        ("frog", "croaks", "flies", "under a flat stone"),
        ("crow", "caws", "seeds", "in the tall elm"),
        ("pig", "grunts", "turnips", "in the straw"),
    )
)

COLOURS = ("red", "blue", "green", "yellow", "purple", "white", "grey", "brown", "black", "pink", "silver")
FRUITS = ("pears", "plums", "apples", "cherries", "figs", "grapes", "walnuts", "berries", "quinces", "peaches")
LANDMARKS = (
    "stone bridge",
    "tall tower",
    "deep well",
    "round pond",
    "great oak",
    "bell house",
    "market hall",
    "glass roof",
    "long wall",
    "sun clock",
)
SEASONS = ("spring", "summer", "autumn", "winter")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

SHE = (
    "Tamsin", "Odile", "Wenna", "Brisa", "Juna", "Maris", "Ilse", "Petra", "Sorrel", "Lune", "Edda", "Vesper",
    "Nella", "Calla", "Rowan", "Thea",
)  # fmt: skip
HE = (
    "Doran", "Perrin", "Fenn", "Garrick", "Ansel", "Hobb", "Jory", "Kester", "Lorcan", "Milo", "Osric", "Rufus",
    "Silas", "Tobin", "Ulric", "Corin",
)  # fmt: skip

PLACE_STARTS = (
    "Or", "Bel", "Hart", "Win", "Cold", "Ash", "Ever", "Thorn", "Lim", "Gold", "Stan", "Fair", "Ros", "Kel",
)  # fmt: skip
PLACE_ENDS = ("len", "wick", "ford", "mere", "combe", "den", "holm", "well", "stow", "ley", "brook", "gate")

VALLEYS = ("Ambledale", "Winterdale", "Larkdale", "Heatherdale", "Millerdale", "Copperdale", "Fernydale", "Otterdale")

KEEPSAKES = ("key", "ring", "coin", "map", "whistle", "shell", "spoon", "bell")
HIDING = (
    "under the blue stone",
    "behind the clock",
    "in the tea pot",
    "in the hollow tree",
    "under the bench",
    "beneath the rug",
)
WEATHER = ("rain", "sun", "snow", "fog", "wind", "frost")
DAY_KINDS = ("fine", "rainy", "sunny", "windy", "cold", "warm", "quiet", "foggy")

# Words that the school of this world spells: short ones, most of them met in its prose.
SPELLING = (
    "mill", "well", "pond", "bell", "road", "hill", "tree", "door", "lamp", "soup", "bread", "honey", "wool", "stone",
    "river", "cloud", "apple", "pear", "plum", "goose", "goat", "duck", "frog", "crow", "table", "chair", "letter",
    "market", "bridge", "garden", "winter", "summer", "yellow", "silver", "green", "brown", "basket", "kettle",
    "button", "hammer", "needle", "barrel", "butter", "carrot", "cherry", "meadow", "school", "little",
)  # fmt: skip
# The school adds and takes away numbers from one to this.
LARGEST = 7

# Names that one text gives to something of its own: a stranger, an animal just bought, a boat.
STRANGERS = (
    "Wren", "Flint", "Basil", "Ember", "Quill", "Tansy", "Clove", "Hazel", "Nettle", "Pepper", "Sable", "Marlo",
)  # fmt: skip
BOATS = ("Heron", "Otter", "Lantern", "Swan", "Arrow", "Pearl", "Salmon", "Breeze", "Anchor", "Comet")
# Names of the animals that people of the world keep.
PETS = (
    "Biscuit", "Pickle", "Noodle", "Pebble", "Muffin", "Tumble", "Dapple", "Socks", "Bobbin", "Twig", "Acorn", "Patch",
    "Whisk", "Crumb", "Domino", "Freckle", "Ginger", "Mitten", "Nutmeg", "Poppy",
)  # fmt: skip


def a(noun: str) -> str:
    """`noun` with its indefinite article: `a goat`, `an owl`."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def listed(words: list[str]) -> str:
    """`one, two and three`."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def some(rng, things, count: int) -> list:
    """`count` of `things` in random order, or all of them where there are fewer."""
    return rng.sample(things, min(count, len(things)))
