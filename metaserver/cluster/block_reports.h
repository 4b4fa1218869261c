/// Compares what a server says it holds with what it should hold.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/proto/meta.pb.h"
#include "metaserver/cluster/allocations.h"
#include "metaserver/cluster/chunk_map.h"
#include "metaserver/cluster/garbage.h"
#include "metaserver/cluster/server_registry.h"

namespace kintsugi::metaserver {

/// A chunk that should be there and is not (or differs) is lost. A chunk that should not be there becomes
/// garbage: a stale copy of a chunk that has moved, or one whose stripe is unknown and cannot be committed
/// any more.
class BlockReports {
 public:
  static constexpr int kMaxChunksOfAPage = 50'000;
  /// A report that takes longer is given up: what was placed meanwhile is no longer remembered.
  static constexpr Duration kMaxDuration = ChunkMap::kPlacedMemoryOfReports - ChunkMap::kPlacedMemory;

  /// References must outlive it.
  BlockReports(ServerRegistry& servers, ChunkMap& chunks, Garbage& garbage, const Allocations& allocations,
               const runtime::Clock& clock)
      : servers_(servers), chunks_(chunks), garbage_(garbage), allocations_(allocations), clock_(clock) {}

  /// A chunk that the server does not have as it was written, and why it is thought so.
  struct LostChunk {
    ChunkId chunk;
    std::string why;
  };
  /// True when this page was the last one. Chunks to be told as lost are added to `lost`. kInvalidArgument: the page is
  /// not ordered. kConflict: its report was given up or superseded (a server numbers its reports upwards), or the server
  /// is not registered.
  Result<bool> take_page(Transaction& transaction, const proto::BlockReportRequest& page,
                         std::vector<LostChunk>& lost);

  /// Whether to ask the server for a report now.
  bool should_ask(ServerId server);

  uint64_t unknown_chunks() const { return unknown_chunks_; }

 private:
  struct Report {
    uint64_t incarnation = 0;  ///< of the server
    uint64_t id = 0;           ///< the latest one's
    bool open = false;
    TimePoint began;
    std::optional<ChunkId> last;
  };
  Status find_report(const proto::BlockReportRequest& page, Report& report) const;
  void close(Report& report);
  void note_open_reports();
  Status check_page(const proto::BlockReportRequest& page, const Report& report) const;
  void note_missing(ServerId server, const Report& report, ChunkId chunk, std::vector<LostChunk>& lost);
  void compare(Transaction& transaction, ServerId server, ChunkId chunk, const proto::ReportedChunk& reported,
               std::vector<LostChunk>& lost);
  void handle_unknown(Transaction& transaction, ServerId server, ChunkId chunk);

  ServerRegistry& servers_;
  ChunkMap& chunks_;
  Garbage& garbage_;
  const Allocations& allocations_;
  const runtime::Clock& clock_;
  std::map<ServerId, Report> reports_;
  uint64_t unknown_chunks_ = 0;
};

}  // namespace kintsugi::metaserver
