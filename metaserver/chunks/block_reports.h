/// Compares what a server says it holds with what it should hold.
///
/// A report is a list of chunks that was collected over some time, and what it does not list proves little: the chunk
/// may have been written behind the report's cursor. So a chunk counts as missing only when it was not placed since the
/// report began, and as garbage only when nothing can place it any more:
///
/// ```
/// expected  reported  verdict
/// yes       same      present
/// yes       other     lost, proven: the server read what it has
/// yes       no        lost, unless it was placed there since the report began
/// no        yes       garbage if that is proven, else quarantine; nothing while its stripe may still be sealed
/// ```
///
/// A server that starts may have lost what was written to it before. When its first report lacks a chunk that was
/// placed just then, or when a stripe is sealed that was allocated before the server registered, it is asked for
/// another report some time later, which decides. So is every server that reports to a metaserver that has just
/// started: a repair that the process before this one ordered may have left a copy after the report, which no commit
/// of this process will ever speak of.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/proto/meta.pb.h"
#include "metaserver/chunks/allocations.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/chunks/garbage.h"
#include "metaserver/chunks/history.h"
#include "metaserver/chunks/quarantine.h"
#include "metaserver/cluster/server_registry.h"

namespace kintsugi::metaserver {

/// Takes the pages of one report of each server at a time. Both the report and the index of a server's chunks are in
/// order, so each page is one merge with a range of the index.
class BlockReports {
 public:
  static constexpr int kMaxChunksOfAPage = 50'000;
  /// A report that takes longer is given up: what was placed since it began is no longer remembered.
  static constexpr Duration kMaxDuration = ChunkMap::kPlacedMemoryOfReports - ChunkMap::kPlacedMemory;

  /// What reports are compared with, and what they change. All of them outlive the reports.
  struct Known {
    ServerRegistry& servers;
    ChunkMap& chunks;
    Garbage& garbage;
    const Allocations& allocations;
    History& history;
    Quarantine& quarantine;
  };

  /// The clock outlives it. The process is taken to start now.
  BlockReports(const Known& known, const runtime::Clock& clock)
      : servers_(known.servers),
        chunks_(known.chunks),
        garbage_(known.garbage),
        allocations_(known.allocations),
        history_(known.history),
        quarantine_(known.quarantine),
        clock_(clock),
        started_(clock.now()) {}

  /// A chunk that the server does not have as it was written, and why it is thought so.
  struct LostChunk {
    ChunkId chunk;
    std::string why;
  };
  /// True when this page was the last one. Chunks to be told as lost are added to `lost`. kInvalidArgument: the page is
  /// not ordered. kConflict: its report was given up or superseded (a server numbers its reports upwards), or the
  /// server is not registered, which its next heartbeat is told.
  Result<bool> take_page(Transaction& transaction, const proto::BlockReportRequest& page,
                         std::vector<LostChunk>& lost);

  /// The server told the loss of a chunk that no stripe places there, but one that is being written may soon.
  void note_lost_early(ServerId server);
  /// A stripe is sealed with a chunk on this server. It may have been written to a process before the present one, or
  /// be what the server told as lost already, when nothing is known of its allocation, or it was made before that.
  void note_sealed(ServerId server, std::optional<TimePoint> allocated);

  /// A reader complained of a chunk on the server. It may be wrong, and what it read damaged on the way: a report from
  /// then on says whether the server has the chunk.
  void note_distrusted(ServerId server, TimePoint believed_from);

  /// The server is to be asked for a report now; then not again for a while.
  bool should_ask(ServerId server);

  /// The server has told all of its chunks since it registered, and nothing is left open: no later report is needed to
  /// say whether a chunk that was placed just before the report is there.
  bool reported(const ServerRecord& server) const {
    return server.registered && !server.first_report && !doubted_.contains(server.id);
  }
  /// The servers of which that is not so, without the dead.
  std::vector<proto::ServerName> not_reported() const;

 private:
  struct Report {
    uint64_t incarnation = 0;  ///< identifies the server process that sends the report
    uint64_t id = 0;
    bool open = false;
    TimePoint began;
    std::optional<ChunkId> last;  ///< the comparison has got up to this chunk
    /// The report lacks a chunk that was placed there too shortly before the report to be called missing.
    bool undecided = false;
    /// The report names a chunk that only tickets of the former metaserver process may protect.
    bool too_early = false;
  };
  /// Makes `report` that of the page. kConflict: the page's report has ended.
  Status find_report(const proto::BlockReportRequest& page, Report& report) const;
  void close(Report& report);
  void note_open_reports();
  Status check_page(const proto::BlockReportRequest& page, const Report& report) const;
  void compare_page(Transaction& transaction, ServerId server, Report& report,
                    const proto::BlockReportRequest& page, std::vector<LostChunk>& lost);
  void note_missing(ServerId server, Report& report, ChunkId chunk, std::vector<LostChunk>& lost);
  void compare(Transaction& transaction, ServerId server, ChunkId chunk, const proto::ReportedChunk& reported,
               std::vector<LostChunk>& lost);
  void handle_unknown(Transaction& transaction, ServerId server, Report& report, ChunkId chunk);
  void make_garbage(Transaction& transaction, ServerId server, ChunkId chunk);

  ServerRegistry& servers_;
  ChunkMap& chunks_;
  Garbage& garbage_;
  const Allocations& allocations_;
  History& history_;
  Quarantine& quarantine_;
  const runtime::Clock& clock_;
  const TimePoint started_;
  std::map<ServerId, Report> reports_;
  /// Servers of which a later report must say whether they have the chunks that were placed on them during the last
  /// report.
  std::set<ServerId> doubted_;
  uint64_t quarantined_ = 0;
};

}  // namespace kintsugi::metaserver
