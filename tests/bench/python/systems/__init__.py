# SPDX-License-Identifier: Apache-2.0
"""The systems that are measured, one file each.

A file has SYSTEMS, what run.py knows of each (System); servers, started by run.py; and clients, which run in
the measured processes. A client has writer(topic) and reader(topic). These have:

  writer.send(payload)        one message, a plain callable (a coroutine function in the form aio)
  writer.send_many(payloads)  many in one call; for the way `many`
  writer.lease(words)         memory of the system's to write a message in; for the way `lease`
  writer.wrap(array)          an array of words as send takes it
  writer.borrows              send does not copy a large payload: it is left alone while it is out
  writer.burst()              the writer has nothing more for now
  reader.recv()               the next message
  reader.recv_many(most)      some of them, one at least; None: there is no such call
  reader.bytes_of             a message as bytes; None: it is bytes already
  reader.words_of(message)    a large message as 64-bit words, in place where the system allows it
  reader.forward(message)     as send takes it
"""
import importlib

from .common import System

MODULES = ("ours", "zeromq", "redispy", "natspy", "nng", "zenohpy", "iceoryx", "ucxxpy", "queues")


def every():
    """{name: System} of all; what a system needs may be missing."""
    return {system.name: system for module in MODULES
            for system in importlib.import_module("." + module, __name__).SYSTEMS}


def module(name):
    """The file of a system, which has its server."""
    return importlib.import_module("." + every()[name].module, __name__)


def client(name, form):
    """The client's class of a system."""
    return getattr(module(name), "Client" if form == "sync" else "AioClient")


__all__ = ["System", "every", "client", "module"]
