"""One writer, many readers: Litestream uploads, our own follower applies.

Writer node (`supervisor` = the parent process, `web` = the process that commits):

    lock_writer -> prepare -> LitestreamSupervisor.start, wait_initialised   supervisor
    Publisher.start, changed, replicate_now, check_keeping_up                web

Reader node:

    Follower.run with a FollowerServer around it                             its own process
    ReplicaCache, FollowerClient                                             each web worker
"""

from service.replica.activation import FollowerClient, FollowerServer
from service.replica.cache import NodeHealth, ReplicaCache, ReplicaView
from service.replica.children import Child
from service.replica.follow import Follower
from service.replica.litestream import LitestreamSupervisor
from service.replica.locks import FolderLock
from service.replica.names import (
    FIRST_EPOCH,
    current_path,
    latest_epoch,
    local_files,
    new_file,
    writer_path,
)
from service.replica.publish import Publisher
from service.replica.restore import Restored, lock_writer, prepare
from service.replica.store import FolderStore, ObjectStore

__all__ = [
    "FIRST_EPOCH",
    "Child",
    "FolderLock",
    "FolderStore",
    "Follower",
    "FollowerClient",
    "FollowerServer",
    "LitestreamSupervisor",
    "NodeHealth",
    "ObjectStore",
    "Publisher",
    "ReplicaCache",
    "ReplicaView",
    "Restored",
    "current_path",
    "latest_epoch",
    "local_files",
    "lock_writer",
    "new_file",
    "prepare",
    "writer_path",
]
