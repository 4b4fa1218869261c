/// The owner of a disk: server id and number, cluster, and what it knows of the cluster's metadata, in a small file on
/// every disk.
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/data_disk.h"
#include "common/base/ids.h"

namespace kintsugi::chunkserver {

/// How far the cluster's metadata had come when this server heard of it last (proto::MetadataMark).
struct MetadataMark {
  uint64_t epoch = 0;  ///< 0: no epoch yet
  uint64_t position = 0;
  bool operator==(const MetadataMark&) const = default;
};

/// The name of that file.
inline constexpr char kIdentityFile[] = "server_id";

struct Identity {
  ServerId server;
  std::string cluster;  ///< empty until the server has registered for the first time
  MetadataMark metadata;
  uint32_t number = 0;  ///< the server's number in its cluster; 0: none yet
  /// The highest that the cluster had (common/proto/formats.h); 0: the file is from before it was kept.
  uint32_t format = 0;
  bool operator==(const Identity&) const = default;
};

/// An identity without a server id means that the disk is new. kCorrupt: the file is damaged.
asio::awaitable<Result<Identity>> load_identity(DataDisk& disk);

/// The identity is durable on return; it replaces the former one as a whole or not at all.
asio::awaitable<Status> save_identity(DataDisk& disk, Identity identity);

}  // namespace kintsugi::chunkserver
