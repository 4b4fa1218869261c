/// The metaserver's orders to delete chunks: taken from the answers to heartbeats, carried out, and acknowledged.
#pragma once

#include <deque>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/chunk_deleter.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::chunkserver {

/// The metaserver forgets an order only when it was told that the order is done, and gives again what did not arrive.
class DeletionOrders {
 public:
  /// References outlive it.
  DeletionOrders(const runtime::Runtime& runtime, ChunkStore& store, sight::Recorder& recorder)
      : deleter_(runtime, store, recorder) {}

  void start() { deleter_.start(); }
  asio::awaitable<void> stop() { return deleter_.stop(); }

  /// A metaserver that has restarted numbers its orders anew, and gives again what it does not know to be done.
  void begin_anew();
  void take(const proto::HeartbeatResponse& response);
  /// Tells the metaserver which of its orders have arrived and which are done.
  void acknowledge(proto::HeartbeatRequest& request);
  /// As ChunkDeleter::take_kept().
  bool take_kept() { return deleter_.take_kept(); }

 private:
  struct Orders {
    uint64_t number;        ///< number that the metaserver gave to the group of orders
    uint64_t last_of_them;  ///< number that the deleter gave to the last order of the group
  };

  ChunkDeleter deleter_;
  std::deque<Orders> open_;  ///< groups that have not been carried out completely
  uint64_t received_ = 0, done_ = 0;
};

}  // namespace kintsugi::chunkserver
