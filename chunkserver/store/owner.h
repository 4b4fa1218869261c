/// The owner of a store's disks: all of them belong to one server of one cluster.
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/store_root.h"
#include "common/runtime/random.h"

namespace kintsugi::chunkserver {

/// Reads the identity of a disk. kCorrupt: it is damaged. kNotSupported: the disk has a format that this program does not
/// know, and nothing on it is touched.
asio::awaitable<Status> read_identity(StoreRoot& root);
/// What the identities of all disks that can be used come to; a server id is made when all of them are new. kConflict:
/// two disks belong to different servers or clusters, one clear line; kUnavailable: those that can be used are all new,
/// and others cannot be used. REQUIRES: they were read.
Result<Identity> agree_on_identity(StoreRoots roots, runtime::Random& random);
/// Says whether a disk, whose identity was read, is new or belongs to the server and cluster of `identity`. kConflict:
/// it does not.
Status check_identity(const StoreRoot& root, const Identity& identity);
/// Writes the common identity to a disk that has another one. A disk that cannot be written is dropped, unless it has
/// an older record of the same server.
asio::awaitable<Status> keep_identity(StoreRoot& root, Identity identity);

/// Binds the server to the cluster, in which it has this number, and which has this format. kConflict: `identity` names
/// another cluster, and nothing changed.
Status join_cluster(Identity& identity, std::string cluster, uint32_t number, uint32_t format);
/// Binds one disk to what the server is bound to; asks no disk that is bound so already. `identity` outlives the call,
/// and what it is when the writes before this one have ended is written.
asio::awaitable<Status> keep_owner(StoreRoot& root, const Identity& identity);

/// Makes the mark of `identity`, as keep_owner() has it, durable on one disk. REQUIRES: no other call for it is under
/// way (StoreRoot::saving_mark).
asio::awaitable<void> save_mark(StoreRoot& root, const Identity& identity);

}  // namespace kintsugi::chunkserver
