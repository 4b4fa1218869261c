/// The owner of a disk: server id and cluster, in a small file on every disk.
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/data_disk.h"
#include "common/base/ids.h"

namespace kintsugi::chunkserver {

struct Identity {
  ServerId server;
  std::string cluster;  ///< empty until the server was registered for the first time
  bool operator==(const Identity&) const = default;
};

/// An identity without a server id means that the disk is new. kCorrupt: the file is damaged.
asio::awaitable<Result<Identity>> load_identity(DataDisk& disk);

/// The identity is durable on return; it replaces the former one as a whole or not at all.
asio::awaitable<Status> save_identity(DataDisk& disk, Identity identity);

}  // namespace kintsugi::chunkserver
