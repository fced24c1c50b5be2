"""The Khronos validation layer: switched on with an instance, its messages kept for who asks."""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iron.errors import error
from iron.runtime.drivers.vulkan import records as r
from iron.runtime.drivers.vulkan.api import Api
from iron.runtime.drivers.vulkan.properties import LayerProperties

LAYER = "VK_LAYER_KHRONOS_validation"
WARNING, ERROR = 0x100, 0x1000
EVERY_TYPE = 0x7
CHECKS = {"gpu": (0, 1), "sync": (4,)}
"""Numbers of the checks that are off by default: memory accesses on the device (with a binding
slot kept for it), and hazards between commands."""


class MessageData(C.Structure):
    """The head of VkDebugUtilsMessengerCallbackDataEXT."""

    _fields_ = (
        *r.HEAD,
        ("flags", r.u32),
        ("pMessageIdName", r.text),
        ("messageIdNumber", r.i32),
        ("pMessage", r.text),
    )


Callback = C.CFUNCTYPE(r.u32, r.u32, r.u32, C.POINTER(MessageData), r.pointer)


class MessengerCreateInfo(r.Chained):
    """Who hears which messages."""

    TYPE = 1000128004
    _fields_ = (
        *r.HEAD,
        ("flags", r.u32),
        ("messageSeverity", r.u32),
        ("messageType", r.u32),
        ("pfnUserCallback", Callback),
        ("pUserData", r.pointer),
    )


class ValidationFeatures(r.Chained):
    """Checks of the validation layer that are off unless asked for."""

    TYPE = 1000247000
    _fields_ = (
        *r.HEAD,
        ("enabledValidationFeatureCount", r.u32),
        ("pEnabledValidationFeatures", C.POINTER(r.u32)),
        ("disabledValidationFeatureCount", r.u32),
        ("pDisabledValidationFeatures", C.POINTER(r.u32)),
    )


@dataclass(slots=True)
class Listener:
    """Turns the layer on with the given checks and keeps what it says."""

    checks: tuple[str, ...] = ()
    messages: list[str] = field(default_factory=list[str])
    _kept: list[Any] = field(default_factory=list[Any])

    def wanted(self, api: Api) -> tuple[tuple[str, ...], tuple[str, ...], int | None]:
        """Layers, extensions and the chain for an instance. E0603 when the layer is missing."""
        if LAYER not in _layers(api):
            raise error(
                "E0603",
                "the Vulkan validation layer is not installed",
                help="`apt install vulkan-validationlayers`",
            )
        extensions = ("VK_EXT_debug_utils",)
        numbers = [n for check in self.checks for n in CHECKS[check]]
        if not numbers:
            return (LAYER,), extensions, None
        listed = (r.u32 * len(numbers))(*numbers)
        chain = ValidationFeatures(
            enabledValidationFeatureCount=len(numbers), pEnabledValidationFeatures=listed
        )
        self._kept += [listed, chain]
        return (LAYER,), (*extensions, "VK_EXT_validation_features"), C.addressof(chain)

    def attach(self, api: Api, instance: Any) -> Callable[[], None]:
        """Starts to listen; the result stops it."""

        def hear(severity: int, kind: int, data: Any, user: Any) -> int:
            self.messages.append(data.contents.pMessage.decode(errors="replace"))
            return 0

        callback = Callback(hear)
        create = MessengerCreateInfo(
            messageSeverity=WARNING | ERROR, messageType=EVERY_TYPE, pfnUserCallback=callback
        )
        self._kept += [callback, create]
        make = api.of_instance(
            instance,
            "vkCreateDebugUtilsMessengerEXT",
            r.i32,
            r.pointer,
            r.pointer,
            r.pointer,
            r.pointer,
        )
        made = r.u64()
        make(instance, C.addressof(create), None, C.addressof(made))
        drop = api.of_instance(
            instance, "vkDestroyDebugUtilsMessengerEXT", None, r.pointer, r.u64, r.pointer
        )
        return lambda: drop(instance, made.value, None)


def _layers(api: Api) -> list[str]:
    count = r.u32()
    api.vkEnumerateInstanceLayerProperties(C.addressof(count), None)
    listed = (LayerProperties * max(1, count.value))()
    api.vkEnumerateInstanceLayerProperties(C.addressof(count), C.addressof(listed))
    return [layer.layerName.decode() for layer in listed[: count.value]]
