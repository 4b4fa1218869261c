/// One child of a node in a repair tree: asks it for its partial sum and adds what comes to the window.
#pragma once

#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/chunk.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/context.h"
#include "repair_tree/slice_window.h"

namespace kintsugi::repair_tree {

class ChildSum {
 public:
  /// `request` is complete but for its node. References outlive run().
  ChildSum(const runtime::Runtime& runtime, rpc::Client& client, SliceWindow& window,
           const proto::PartialSumRequest& request, const proto::RepairNode& node);

  /// Opens the stream at once, then receives slice by slice as the window opens. The error names the server.
  asio::awaitable<Status> run(Context context);
  /// Breaks the stream, and with it the child's subtree.
  void close();

  double network_seconds() const { return network_seconds_; }
  double compute_seconds() const { return compute_seconds_; }
  uint64_t bytes_in() const { return bytes_in_; }
  const proto::PartialSumDone& done() const { return done_; }

 private:
  asio::awaitable<Status> receive_all(Context context);
  asio::awaitable<Status> receive_slice(size_t slice);
  /// Adds one frame; returns how many bytes of the slice it covered (0: it only shows that the child lives).
  asio::awaitable<Result<uint64_t>> receive_frame(size_t slice, uint64_t received);
  asio::awaitable<Status> finish();
  Status check_frame(const proto::PartialSumData& data, uint32_t payload_bytes, size_t slice,
                     uint64_t received) const;

  const runtime::Runtime& runtime_;
  rpc::Client& client_;
  SliceWindow& window_;
  proto::PartialSumRequest request_;
  std::unique_ptr<rpc::Stream> stream_;
  bool closed_ = false;
  std::vector<std::byte> frame_;
  proto::PartialSumDone done_;
  double network_seconds_ = 0, compute_seconds_ = 0;
  uint64_t bytes_in_ = 0;
};

}  // namespace kintsugi::repair_tree
