/// How many stripes lack chunks, counted in the background: nobody who asks waits for a walk.
#pragma once

#include <vector>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// Goes again and again through the chunks that cannot be read: those that are known as lost, those on dead servers,
/// and those that were never written. A pass costs what is missing, not what is stored. What is found at a time is not
/// found at the same moment, so while chunks come and go the counts are near the truth; once nothing changes, the next
/// pass has them exactly.
class StripeHealth {
 public:
  /// A step visits at most so many chunks.
  static constexpr size_t kChunksOfAStep = 200;

  /// `chunks` outlives it.
  explicit StripeHealth(const ChunkMap& chunks) : chunks_(chunks) {}

  /// One step of a pass. False: the pass has ended.
  bool step(const Reader& reader);

  /// The counts of the last pass, or of the running one as soon as that has found more. `not_reported` is not filled
  /// in.
  const proto::StripeHealth& counts() const { return counts_; }

 private:
  void begin();
  /// The chunks of the current source that come after `after_`, at most kChunksOfAStep.
  std::vector<ChunkId> next_chunks(const Reader& reader) const;
  void look_at(const Reader& reader, ChunkId chunk);
  void publish();

  const ChunkMap& chunks_;
  bool running_ = false;     ///< a pass has begun and not ended
  bool among_lost_ = false;  ///< the pass visits the chunks known to be lost; those of `servers_` follow
  std::vector<ServerId> servers_;  ///< servers whose chunks are still to be visited, the next one last
  ChunkId after_{};                ///< the pass has visited the current source up to this chunk
  proto::StripeHealth found_, counts_;
};

}  // namespace kintsugi::metaserver
