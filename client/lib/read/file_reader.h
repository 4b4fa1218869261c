/// Reads a range of a file in order: windows are fetched ahead, across stripes, as far as memory allows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/lib/io.h"
#include "client/lib/read/window_pipeline.h"
#include "client/lib/resources.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

struct ReadOptions {
  uint64_t offset = 0;
  uint64_t length = 0;  ///< 0 = to the end of the file; a range beyond it ends there
  std::function<void(uint64_t bytes)> progress = {};
};

/// Use once. A window that cannot be read is tried again with fresh locations, since repairs move chunks. All bytes are
/// those of one file: when another one has taken its place meanwhile, the rest cannot be read.
class FileReader final : private WindowUser {
 public:
  FileReader(Resources& resources, Context context, std::string path, Sink& sink, ReadOptions options);

  /// Asks for the file's attributes and first locations. kNotFound, kIsDirectory.
  asio::awaitable<Status> open(proto::Attributes& attributes);
  /// Ok: the whole range went to the sink. kConflict: the file was replaced. REQUIRES: `open` succeeded.
  asio::awaitable<Status> run();
  /// The sink has been given something.
  bool delivered() const { return delivered_; }

 private:
  /// A page of locations, alive while windows of it are in flight.
  using Page = std::shared_ptr<const proto::OpenReadResponse>;
  /// The rest of an extent that is still to be planned.
  struct Extent {
    std::shared_ptr<const proto::Stripe> stripe;
    erasure::Policy policy;
    uint64_t file_offset = 0;    ///< where the extent begins
    uint64_t stripe_offset = 0;  ///< the same place in the stripe
    WindowPlan plan;
  };

  asio::awaitable<Status> plan_next(std::optional<Planned>& next) override;
  asio::awaitable<Status> take(WindowInFlight& window) override;
  asio::awaitable<Status> locate(uint64_t offset, uint64_t length, Page& page);
  asio::awaitable<Status> next_extent();
  asio::awaitable<Status> read_again(WindowInFlight& failed);
  Result<Extent> plan_extent(const proto::Extent& extent) const;
  uint64_t window_bytes(const erasure::Policy& policy) const;

  Resources& resources_;
  Context context_;
  const std::string path_;
  Sink& sink_;
  const ReadOptions options_;
  uint64_t begin_ = 0, end_ = 0;  ///< the range in the file
  uint64_t planned_ = 0;          ///< file offset up to which windows were planned
  Page page_;
  int next_in_page_ = 0;  ///< the extent after extent_
  std::optional<Extent> extent_;
  bool delivered_ = false;
  WindowPipeline pipeline_;
};

}  // namespace kintsugi::client
