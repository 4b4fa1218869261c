/// The own chunk of a node in a repair tree: its sub-chunks times the node's coefficients are added to the sums.
#pragma once

#include <vector>

#include "chunkserver/store/chunk_store.h"
#include "partial_sum/sum_matrix.h"
#include "partial_sum/sum_receiver.h"

namespace kintsugi::chunkserver {

/// Reads the chunk part by part and adds each part to the window as soon as it is there.
class OwnSum final : public partial_sum::SumContributor {
 public:
  /// REQUIRES: the node was checked (check_tree.h) and has a chunk. The references outlive it, without the node.
  OwnSum(const runtime::Clock& clock, ChunkStore& store, StripeId stripe, const proto::RepairNode& node,
         uint32_t rows, ReadFor purpose);

  /// Errors: kNotFound, kCorrupt (names the block, or the chunk has another length than the node says).
  asio::awaitable<Status> contribute(Context context, partial_sum::SliceWindow& window,
                                     size_t contributor) override;

  double read_seconds() const { return read_seconds_; }
  double compute_seconds() const { return compute_seconds_; }
  uint64_t disk_bytes() const { return disk_bytes_; }

 private:
  struct Part;   ///< the bytes of each row that are read at a time
  class Memory;  ///< aligned memory that counts towards the node's limit

  asio::awaitable<Status> add_all(Context context, ChunkReader& reader, partial_sum::SliceWindow& window,
                                  size_t contributor);
  asio::awaitable<Status> add_part(Context context, ChunkReader& reader, partial_sum::SliceWindow& window,
                                   size_t contributor, Part& part);
  /// Reads the row's bytes from sub-chunk offset `begin` on into the part's memory: as many as the chunk has of the
  /// part.
  asio::awaitable<Result<std::span<const std::byte>>> read_row(Context context, ChunkReader& reader,
                                                               const partial_sum::SumRange& range,
                                                               uint32_t row, uint64_t begin,
                                                               const Part& part);

  const runtime::Clock& clock_;
  ChunkStore& store_;
  const ReadFor purpose_;
  const ChunkId id_;
  const uint64_t length_;
  std::vector<uint32_t> rows_;
  partial_sum::SumMatrix matrix_;
  double read_seconds_ = 0, compute_seconds_ = 0;
  uint64_t disk_bytes_ = 0;
};

}  // namespace kintsugi::chunkserver
