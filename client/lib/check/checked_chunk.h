/// A chunk that is to be read on its server, as the metaserver described it.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "client/lib/resources.h"
#include "common/proto/types.pb.h"

namespace kintsugi::client {

struct CheckedChunk {
  ChunkId id;
  ServerId server;
  std::string server_name;  ///< name for people
  std::string address;
  uint64_t length = 0;
  uint32_t crc = 0;
  std::string capability;  ///< capability to read the chunk
  TimePoint located;       ///< when the metaserver named this place
  std::shared_ptr<const std::string> path;
};

CheckedChunk checked_chunk(StripeId stripe, const proto::ChunkPlacement& placement, TimePoint located,
                           std::shared_ptr<const std::string> path);

/// The stripe as it is now, with capabilities to read. kNotFound: no file has it any more.
asio::awaitable<Result<proto::Stripe>> look_up(Resources& resources, Context context, StripeId stripe);

}  // namespace kintsugi::client
