/// Reads a range of a file in order: windows are fetched ahead, across stripes, as far as memory allows.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/lib/core.h"
#include "client/lib/io.h"
#include "client/lib/read/window_reader.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

struct ReadOptions {
  ReadOptions() {}  // not an aggregate, see WriteOptions
  uint64_t offset = 0;
  uint64_t length = 0;  ///< 0 = to the end of the file; a range beyond it ends there
  std::function<void(uint64_t bytes)> progress;
};

/// Use once. A window that cannot be read is tried again with fresh locations, since repairs move chunks.
class FileReader {
 public:
  FileReader(Core& core, Context context, std::string path, Sink& sink, ReadOptions options);

  /// Asks for the file's attributes and first locations. kNotFound, kIsDirectory.
  asio::awaitable<Result<proto::Attributes>> open();
  /// After `open`. Ok: the whole range went to the sink.
  asio::awaitable<Status> run();

 private:
  /// A page of locations, alive while windows of it are in flight.
  using Page = std::shared_ptr<const proto::OpenReadResponse>;
  struct InFlight {
    Page page;
    std::unique_ptr<WindowReader> reader;
    uint64_t file_offset = 0;
    std::optional<Status> result;
  };
  /// Where a window's extent is, and what is left of it to plan.
  struct Extent {
    const proto::Stripe* stripe = nullptr;
    erasure::Policy policy;
    uint64_t file_offset = 0;    // of the extent
    uint64_t stripe_offset = 0;  // of the extent
    WindowPlan plan;
  };

  asio::awaitable<Result<Page>> locate(uint64_t offset, uint64_t length);
  asio::awaitable<Status> read_to_end();
  /// Begins to read the next window. False when memory has to come back first, or nothing is left.
  asio::awaitable<Result<bool>> start_next();
  asio::awaitable<Status> next_extent();
  asio::awaitable<Status> deliver();
  asio::awaitable<Status> read_again(InFlight& failed);
  asio::awaitable<void> run_window(InFlight* window);
  Result<Extent> plan_extent(const proto::Extent& extent) const;
  uint64_t window_bytes(const erasure::Policy& policy) const;

  Core& core_;
  Context context_;
  std::string path_;
  Sink& sink_;
  ReadOptions options_;
  uint64_t begin_ = 0, end_ = 0;  // of the range in the file
  uint64_t planned_ = 0;          // file offset up to which windows were started
  Page page_;
  int next_in_page_ = 0;
  std::optional<Extent> extent_;
  std::deque<std::unique_ptr<InFlight>> in_flight_;
  runtime::Event changed_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
