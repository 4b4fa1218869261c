/// Reads a range of a file in order: windows are fetched ahead, across stripes, as far as memory allows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/io.h"
#include "client/lib/read/located_extent.h"
#include "client/lib/read/window_pipeline.h"
#include "client/lib/resources.h"
#include "client/lib/which_file.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

struct ReadOptions {
  uint64_t offset = 0;
  uint64_t length = 0;  ///< 0 = to the end of the file; a range beyond it ends there
  std::function<void(uint64_t bytes)> progress = {};
};

/// Use once. What cannot be read is tried again with fresh locations, since repairs move chunks. All bytes are
/// those of one file: when another one has taken its place meanwhile, the rest cannot be read. Holes are read as zeros, and
/// many small extents several at a time; a sink that can leave a hole is told of them.
class FileReader final : private WindowUser {
 public:
  FileReader(Resources& resources, Context context, WhichFile file, Sink& sink, ReadOptions options);

  /// Asks for the file's attributes and first locations. kNotFound, kIsDirectory.
  asio::awaitable<Status> open(proto::Attributes& attributes);
  /// Ok: the whole range went to the sink. kConflict: the file was replaced. REQUIRES: `open` succeeded.
  asio::awaitable<Status> run();
  /// The sink has been given something.
  bool delivered() const { return delivered_; }

 private:
  /// What the metaserver said of a range.
  struct Page {
    std::vector<LocatedExtent> extents;
    uint64_t end = 0;  ///< nothing is known from here on
  };

  asio::awaitable<Status> plan_next(std::optional<Planned>& next) override;
  asio::awaitable<Status> take(WindowInFlight& window) override;

  asio::awaitable<Status> read_all();
  asio::awaitable<Status> locate(uint64_t offset, uint64_t end, Page& page);
  /// Has the extent, if any, that holds planned_ or comes after it: it is none at the end of the range.
  asio::awaitable<Status> find_next(const LocatedExtent*& next);
  /// Is worth windows of its own.
  bool is_long(const LocatedExtent& extent) const;
  asio::awaitable<Status> give_hole(uint64_t end);
  /// Gives bytes that were read, without the holes among them that are worth being told.
  asio::awaitable<Status> give_scattered(uint64_t begin, std::span<const std::byte> bytes,
                                         const std::vector<DataRange>& data);
  /// Reads small extents, and the holes between them.
  asio::awaitable<Status> read_scattered();
  asio::awaitable<Status> give(uint64_t offset, std::span<const std::span<const std::byte>> ranges);
  asio::awaitable<Status> read_again(WindowInFlight& failed);
  /// True when another attempt may do better: some time has passed.
  asio::awaitable<bool> may_try_again(const Status& failure, int attempt);
  uint64_t window_bytes(const erasure::Policy& policy) const;
  Status changed() const;

  Resources& resources_;
  Context context_;
  const WhichFile file_;
  Sink& sink_;
  const ReadOptions options_;
  proto::Attributes attributes_;  ///< as open() found them
  uint64_t end_ = 0;              ///< of the range
  uint64_t planned_ = 0;          ///< file offset up to which everything was planned
  Page page_;
  size_t next_in_page_ = 0;                      ///< the first extent that ends after planned_
  std::optional<WindowPlan> plan_;               ///< of the extent that is planned now
  std::shared_ptr<const LocatedStripe> stripe_;  ///< its stripe
  bool opened_ = false, delivered_ = false;
  WindowPipeline pipeline_;
};

}  // namespace kintsugi::client
