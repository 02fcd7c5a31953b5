"""The chat sets: one module a set, the tasks that ChatCORE asks, and the mixture that fine-tuning reads."""

from xsa.data.chat.items import CategoricalItem, Conversation, GeneratedItem, final_answer
from xsa.data.chat.mixture import Mixture, mixture
from xsa.data.chat.tasks import chat_items

__all__ = [
    "CategoricalItem",
    "Conversation",
    "GeneratedItem",
    "Mixture",
    "chat_items",
    "final_answer",
    "mixture",
]
