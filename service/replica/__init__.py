"""One writer, many readers: Litestream uploads, our own follower applies.

Writer node (`supervisor` = the parent process, `web` = the process that commits):

    lock_writer -> Lease.acquire, LeaseKeeper -> prepare
        -> LitestreamSupervisor.start, wait_initialised                      supervisor
    LeaseGuard, Publisher.start, changed, replicate_now, check_keeping_up    web

Reader node:

    Follower.run with a FollowerServer around it                             its own process
    ReplicaCache, FollowerClient                                             each web worker
"""

from service.replica.activation import FollowerClient, FollowerServer, Warmed
from service.replica.cache import ReplicaCache, ReplicaView
from service.replica.canary import Canary, canary_file
from service.replica.children import Child
from service.replica.follow import Follower
from service.replica.keeper import LeaseGuard, LeaseKeeper
from service.replica.lease import Lease
from service.replica.litestream import LitestreamSupervisor
from service.replica.locks import FolderLock
from service.replica.names import (
    FIRST_EPOCH,
    current_path,
    first_epoch,
    latest_epoch,
    local_files,
    new_file,
    writer_path,
)
from service.replica.publish import Publisher
from service.replica.restore import Restored, lock_writer, prepare
from service.replica.store import FolderStore, ObjectStore
from service.replica.stores import open_store, store_url
from service.replica.tenure import UNFENCED, Tenure
from service.replica.vitals import NodeHealth

__all__ = [
    "FIRST_EPOCH",
    "UNFENCED",
    "Canary",
    "Child",
    "FolderLock",
    "FolderStore",
    "Follower",
    "FollowerClient",
    "FollowerServer",
    "Lease",
    "LeaseGuard",
    "LeaseKeeper",
    "LitestreamSupervisor",
    "NodeHealth",
    "ObjectStore",
    "Publisher",
    "ReplicaCache",
    "ReplicaView",
    "Restored",
    "Tenure",
    "Warmed",
    "canary_file",
    "current_path",
    "first_epoch",
    "latest_epoch",
    "local_files",
    "lock_writer",
    "new_file",
    "open_store",
    "prepare",
    "store_url",
    "writer_path",
]
