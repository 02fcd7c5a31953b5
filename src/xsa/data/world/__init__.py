"""A small made-up world, and all that a first study needs to read and be asked: text, a CORE bundle, chat sets."""

from xsa.data.world.bundle import write_bundle
from xsa.data.world.chat import write_chatsets
from xsa.data.world.prose import write_shard

__all__ = ["write_bundle", "write_chatsets", "write_shard"]
