"""What memory is used for: `MemoryProfile(recording)`. docs/memory.md has the rules."""

from otel_torchprof.analysis.memory.blocks import NEVER, Blocks, Device
from otel_torchprof.analysis.memory.category import Category
from otel_torchprof.analysis.memory.growth import GrowingSite, Growth
from otel_torchprof.analysis.memory.peak import LiveBlock, Peak, Share
from otel_torchprof.analysis.memory.profile import DeviceMemory, MemoryProfile
from otel_torchprof.analysis.memory.timeline import Action, MemoryEvents, Timeline, condense

__all__ = [
    "NEVER",
    "Action",
    "Blocks",
    "Category",
    "Device",
    "DeviceMemory",
    "GrowingSite",
    "Growth",
    "LiveBlock",
    "MemoryEvents",
    "MemoryProfile",
    "Peak",
    "Share",
    "Timeline",
    "condense",
]
