/// Whose disk it is: the server id and the cluster, in a small file on every disk.
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

/// No server id: the disk is new. kCorrupt when the file is damaged.
asio::awaitable<Result<Identity>> load_identity(DataDisk& disk);

/// Durable on return; replaces what was there as a whole.
asio::awaitable<Status> save_identity(DataDisk& disk, Identity identity);

}  // namespace kintsugi::chunkserver
