#include "metaserver/chunks/block_reports.h"

#include <utility>

#include "common/log/log.h"

namespace kintsugi::metaserver {
namespace {

constexpr Duration kAskAgainAfter = std::chrono::seconds(30);
/// After a metaserver's start servers are for so long usually still carrying out what the process before it ordered.
/// Copies of repairs that take longer are found by the next report, within an hour.
constexpr Duration kOrdersOutlive = std::chrono::seconds(30);

ChunkId id_of(const proto::ReportedChunk& chunk) {
  return {StripeId{chunk.stripe_id()}, chunk.index()};
}

}  // namespace

Status BlockReports::check_page(const proto::BlockReportRequest& page, const Report& report) const {
  if (page.chunks_size() > kMaxChunksOfAPage)
    return {Code::kLimitExceeded, "a page of a block report is too long"};
  std::optional<ChunkId> last = report.last;
  for (const proto::ReportedChunk& chunk : page.chunks()) {
    if (chunk.index() > keys::kMaxIndex) return {Code::kInvalidArgument, "a chunk's index is too large"};
    if (last && id_of(chunk) <= *last) return {Code::kInvalidArgument, "a block report must be ordered"};
    last = id_of(chunk);
  }
  return {};
}

Status BlockReports::find_report(const proto::BlockReportRequest& page, Report& report) const {
  const bool newer = report.incarnation != page.incarnation() || page.report_id() > report.id;
  // A page that comes late must not be taken for the first of a report: every chunk before it would seem missing. The
  // pages before it may have come to another process of the metaserver.
  if (newer && !page.continues())
    report = {page.incarnation(), page.report_id(), true, clock_.now(), std::nullopt};
  if (page.report_id() == report.id && page.incarnation() == report.incarnation && report.open) return {};
  return {Code::kConflict, "a page of a block report that has ended"};
}

void BlockReports::close(Report& report) {
  report.open = false;
  note_open_reports();
}

void BlockReports::note_open_reports() {
  TimePoint oldest = TimePoint::max();
  for (const auto& [server, report] : reports_) {
    // A report that was never ended keeps placements remembered for kPlacedMemoryOfReports at most.
    if (report.open) oldest = std::min(oldest, report.began);
  }
  chunks_.reports_began(oldest);
}

Result<bool> BlockReports::take_page(Transaction& transaction, const proto::BlockReportRequest& page,
                                     std::vector<LostChunk>& lost) {
  const ServerId id{page.server_id()};
  ServerRecord* server = servers_.find(id);
  KINTSUGI_TRY(servers_.check_removed(id, page.incarnation()));
  if (!server || !server->registered || server->stored.incarnation() != page.incarnation()) {
    return Status{Code::kConflict,
                  fmt::format("server {} must register before it reports", servers_.name_of(id))};
  }
  Report& report = reports_[id];
  KINTSUGI_TRY(find_report(page, report));
  note_open_reports();
  // Beyond that ChunkMap may have forgotten what was placed since the report began: such chunks would seem missing.
  if (clock_.now() - report.began > kMaxDuration) {
    close(report);
    return Status{Code::kConflict, "the block report took too long"};
  }
  // After a refused page the rest cannot be trusted to follow on: the server begins a new report.
  if (Status status = check_page(page, report); !status.ok()) {
    close(report);
    return status;
  }
  if (page.chunks_size() == 0 && !page.last()) return false;

  const uint64_t quarantined_before = quarantined_;
  compare_page(transaction, id, report, page, lost);
  if (quarantined_ > quarantined_before) {
    log::warning(
        "server {} holds {} chunks that no file names and that may not be garbage: they are in quarantine",
        servers_.name_of(id), quarantined_ - quarantined_before);
  }
  if (!page.last()) {
    report.last = id_of(page.chunks(page.chunks_size() - 1));
    return false;
  }
  close(report);
  server->wants_block_report = false;
  // Only the first report makes a doubt: a server that is written to all the time has a chunk that was placed just now
  // in every one.
  if (report.undecided && server->first_report) server->last_doubt = clock_.now();
  if (std::exchange(server->first_report, false)) garbage_.wake_all();
  const TimePoint decidable = server->last_doubt + ChunkMap::kPlacedMemory;
  const bool is_doubted = report.began < decidable;
  server->report_again = is_doubted ? decidable : TimePoint::max();
  if (is_doubted) {
    doubted_.insert(id);
  } else {
    doubted_.erase(id);
  }
  if (report.too_early) server->report_again = std::min(server->report_again, allocations_.settles_at());
  if (report.began < started_ + kOrdersOutlive)
    server->report_again = std::min(server->report_again, report.began + kOrdersOutlive);
  return true;
}

void BlockReports::compare_page(Transaction& transaction, ServerId server, Report& report,
                                const proto::BlockReportRequest& page, std::vector<LostChunk>& lost) {
  // Both sides are ordered: everything expected after the last page and up to this one's last chunk must be in it.
  keys::Range range = keys::all(keys::Kind::kServerChunk, server.value);
  if (report.last) range.begin = keys::server_chunk(server, *report.last).append(1, '\0');
  if (!page.last())
    range.end = keys::server_chunk(server, id_of(page.chunks(page.chunks_size() - 1))).append(1, '\0');
  std::vector<ChunkId> expected;
  transaction.scan(range, [&](std::string_view key, std::string_view) {
    expected.push_back(keys::chunk_of(key));
    return true;
  });
  auto at = expected.begin();
  const ServerRecord* record = servers_.find(server);
  for (const proto::ReportedChunk& reported : page.chunks()) {
    // What lies on a disk that was given up is as good as not there, until the disk answers again.
    if (record != nullptr && record->hung_disks.given_up(reported.disk())) continue;
    const ChunkId chunk = id_of(reported);
    while (at != expected.end() && *at < chunk)
      note_missing(server, report, *at++, lost);
    if (at != expected.end() && *at == chunk) {
      compare(transaction, server, *at++, reported, lost);
    } else {
      handle_unknown(transaction, server, report, chunk);
    }
  }
  while (at != expected.end())
    note_missing(server, report, *at++, lost);
}

void BlockReports::note_missing(ServerId server, Report& report, ChunkId chunk,
                                std::vector<LostChunk>& lost) {
  // The chunk was written behind the report's cursor, or while the first page was on its way: the page cannot list it.
  if (chunks_.placed_since(chunk, server, report.began - ChunkMap::kPlacedMemory)) {
    report.undecided = true;
    return;
  }
  chunks_.set_lost(chunk, false);
  // It is told again if it was before: whoever repairs may have given up on it since.
  lost.push_back({chunk, fmt::format("server {} no longer has it", servers_.name_of(server))});
}

void BlockReports::compare(Transaction& transaction, ServerId server, ChunkId chunk,
                           const proto::ReportedChunk& reported, std::vector<LostChunk>& lost) {
  const auto stripe = load_stripe(transaction.store(), chunk.stripe);
  KINTSUGI_ASSERT(stripe && chunk.index < static_cast<uint32_t>(stripe->chunks_size()));
  const proto::StoredChunk& written = stripe->chunks(static_cast<int>(chunk.index));
  // The server's word clears a chunk that was reported lost only after ChunkMap::kDistrust, when somebody read
  // bad bytes.
  if (written.length() == reported.length() && written.crc() == reported.crc()) {
    if (const auto believed_from = chunks_.set_present(chunk)) note_distrusted(server, *believed_from);
  } else if (chunks_.set_lost(chunk, true)) {
    lost.push_back(
        {chunk, fmt::format("server {} has other bytes than were written", servers_.name_of(server))});
  }
}

void BlockReports::make_garbage(Transaction& transaction, ServerId server, ChunkId chunk) {
  transaction.put(keys::garbage(server, chunk), "");
  garbage_.wake(server);
}

void BlockReports::handle_unknown(Transaction& transaction, ServerId server, Report& report, ChunkId chunk) {
  // Its deletion was decided before.
  if (Garbage::pending(transaction.store(), server, chunk)) return garbage_.named_again(server, chunk);
  // A sealed stripe places the chunk elsewhere. It may be the copy of a repair that is under way: if so, its commit is
  // refused while the key is there, or takes the key back when the deletion was not ordered yet.
  if (load_stripe(transaction.store(), chunk.stripe)) return make_garbage(transaction, server, chunk);
  const History::Origin origin = history_.origin_of(chunk.stripe);
  if (origin == History::Origin::kForeign) {
    // One that is in quarantine already has begun its doubt, which may be decided by now.
    if (!quarantine_.add(transaction, server, chunk, true)) return;
    ++quarantined_;
    history_.foreign_chunk(transaction, server, chunk);
    return;
  }
  // The stripe is being written: it has no record yet, but may be sealed with this chunk. Once it is not protected it
  // cannot be sealed any more (Uploads::open), and from here on seal() finds the garbage key as well.
  // A chunk that was ordered to be deleted as garbage, and is here again since its disk hung, is garbage still.
  const bool was_deleted = garbage_.deleted_as_orphan(server, chunk);
  if (!was_deleted && allocations_.protects(chunk.stripe)) {
    report.too_early = report.too_early || !allocations_.settled();
    return;
  }
  // This process gave the id out and forgot nothing since: the upload was aborted, or has expired. A stripe of a
  // process before this one was probably never sealed, but only if this metadata is what it should be.
  if (was_deleted || origin == History::Origin::kThisProcess) return make_garbage(transaction, server, chunk);
  quarantined_ += quarantine_.add(transaction, server, chunk, false) ? 1 : 0;
}

void BlockReports::note_lost_early(ServerId id) {
  if (ServerRecord* server = servers_.find(id)) server->lost_early = clock_.now();
}

void BlockReports::note_sealed(ServerId id, std::optional<TimePoint> allocated) {
  ServerRecord* server = servers_.find(id);
  if (!server || (allocated && *allocated > std::max(server->registered_at, server->lost_early))) return;
  server->last_doubt = clock_.now();
  doubted_.insert(id);
  server->report_again = std::min(server->report_again, server->last_doubt + ChunkMap::kPlacedMemory);
}

void BlockReports::note_distrusted(ServerId id, TimePoint believed_from) {
  ServerRecord* server = servers_.find(id);
  if (server != nullptr) server->believe_again = std::min(server->believe_again, believed_from);
}

bool BlockReports::should_ask(ServerId id) {
  ServerRecord* server = servers_.find(id);
  const TimePoint now = clock_.now();
  if (server && now >= std::min(server->report_again, server->believe_again)) {
    for (TimePoint* when : {&server->report_again, &server->believe_again})
      if (now >= *when) *when = TimePoint::max();
    server->wants_block_report = true;
    server->block_report_due = now;
  }
  // A server that has just registered sends its report by itself: it is asked when that did not come.
  if (!server || !server->wants_block_report || now < server->block_report_due) return false;
  server->block_report_due = now + kAskAgainAfter;
  return true;
}

std::vector<proto::ServerName> BlockReports::not_reported() const {
  std::vector<proto::ServerName> names;
  for (const auto& [id, server] : servers_.servers())
    if (server.liveness != proto::ServerState::DEAD && !reported(server))
      names.push_back(servers_.names().of(id));
  return names;
}

}  // namespace kintsugi::metaserver
