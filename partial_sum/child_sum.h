/// One child of a node in a repair tree: asks the child for its partial sum and adds that to the window.
#pragma once

#include <memory>

#include <boost/asio/awaitable.hpp>

#include "common/proto/chunk.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/context.h"
#include "partial_sum/pace.h"
#include "partial_sum/slice_window.h"
#include "partial_sum/sum_matrix.h"

namespace kintsugi::partial_sum {

class ChildSum {
 public:
  /// Where the child's sum goes: `contributor` is its number in the window. With a `pace`, that is passed before
  /// each frame.
  struct Place {
    SliceWindow& window;
    size_t contributor = 0;
    Pace* pace = nullptr;
  };
  /// REQUIRES: the request's node was checked (check_tree.h). References outlive run().
  ChildSum(const runtime::Runtime& runtime, rpc::Client& client, proto::PartialSumRequest request,
           Place place);

  /// Opens the stream at once, then receives as the window opens. An error blames the child's server.
  asio::awaitable<Status> run(Context context);
  /// Breaks the stream, and with it the child's subtree.
  void close();

  double network_seconds() const { return network_seconds_; }  ///< time spent waiting for the child
  double compute_seconds() const { return compute_seconds_; }
  uint64_t bytes_in() const { return bytes_in_; }
  const proto::PartialSumDone& done() const { return done_; }

 private:
  /// Where the next byte of the sum goes.
  struct Cursor {
    size_t unit = 0;
    uint64_t within = 0;
  };

  asio::awaitable<Status> receive_all(Context context);
  asio::awaitable<Status> receive_frame();
  /// Adds `bytes` of each output to the window from the cursor on; returns their CRC.
  asio::awaitable<Result<uint32_t>> receive_sums(uint64_t bytes);
  asio::awaitable<Result<uint32_t>> receive_part(uint32_t output, size_t unit, uint64_t begin, uint64_t end,
                                                 uint32_t crc, bool first);
  asio::awaitable<Status> skip_zeros(uint64_t bytes);
  void advance(uint64_t bytes);
  asio::awaitable<Status> finish();
  Status check_frame(const proto::PartialSumData& data, uint32_t payload_bytes) const;

  const runtime::Runtime& runtime_;
  rpc::Client& client_;
  SliceWindow& window_;
  const size_t contributor_;
  Pace* pace_;
  Context context_;  ///< context of run()
  proto::PartialSumRequest request_;
  SumMatrix matrix_;
  std::unique_ptr<rpc::Stream> stream_;
  bool closed_ = false;
  Cursor cursor_;
  HeldBytes piece_;
  proto::PartialSumDone done_;
  double network_seconds_ = 0, compute_seconds_ = 0;
  uint64_t bytes_in_ = 0;
};

}  // namespace kintsugi::partial_sum
