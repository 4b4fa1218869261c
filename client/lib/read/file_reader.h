/// Reads a range of a file in order: pieces are fetched ahead, across stripes, as far as memory allows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "client/lib/io.h"
#include "client/lib/read/range_read.h"
#include "client/lib/read/read_pipeline.h"
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
/// those of one file: when another one has taken its place meanwhile, the rest cannot be read. A piece is a window of a long
/// extent, several small extents, or a hole: a sink that can leave one is told of it.
class FileReader final : private ReadPipeline<RangeRead>::User {
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
    uint64_t end = 0;         ///< nothing is known from here on
    uint64_t file_bytes = 0;  ///< size of the file
    int64_t modified_ns = 0;  ///< time at which the contents changed last
  };

  using Piece = ReadPipeline<RangeRead>::InFlight;
  asio::awaitable<Status> plan_next(std::unique_ptr<RangeRead>& next) override;
  asio::awaitable<Status> take(Piece& piece) override;

  asio::awaitable<Status> locate(uint64_t offset, uint64_t end, Page& page);
  /// Where the piece that begins at planned_ ends; `rest` is what page_ has from there on.
  uint64_t piece_end(std::span<const LocatedExtent> rest) const;
  asio::awaitable<Status> read_again(Piece& failed);
  asio::awaitable<Status> give(const RangeRead& read);
  asio::awaitable<Status> give_data(uint64_t offset, std::vector<std::span<const std::byte>> ranges);
  asio::awaitable<Status> give_hole(const Stretch& hole);
  /// True when another attempt may do better: some time has passed.
  asio::awaitable<bool> may_try_again(const Status& failure, int attempt);
  Status changed() const;

  Resources& resources_;
  Context context_;
  const WhichFile file_;
  Sink& sink_;
  const ReadOptions options_;
  proto::Attributes attributes_;  ///< the attributes that open() found
  uint64_t end_ = 0;              ///< the end of the range
  uint64_t planned_ = 0;          ///< file offset up to which everything was planned
  Page page_;
  bool opened_ = false, delivered_ = false;
};

}  // namespace kintsugi::client
