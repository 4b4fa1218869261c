#include "metaserver/service/fsck_page.h"

#include <algorithm>
#include <set>

#include "erasure/policy.h"
#include "metaserver/schema/snapshot_view.h"
#include "metaserver/service/fsck_names.h"

namespace kintsugi::metaserver {
namespace {

/// Where the next page begins after one that ended among saved extents starts with this; no path does.
constexpr char kSavedAfter = '\x01';
/// The same for a page that ended among the names of snapshots.
constexpr char kNamesAfter = '\x02';

std::string describe_available(const erasure::Code& code, size_t available, bool lost) {
  if (code.policy().family != erasure::Policy::Family::kLocal)
    return fmt::format("{} of {} chunks are available, {} are needed", available, code.chunks(), code.k());
  return fmt::format("{} of {} chunks are available, which {}", available, code.chunks(),
                     lost ? "do not suffice" : "suffice");
}

}  // namespace

Status FsckPage::fill() {
  const bool in_saved = request_.after().starts_with(kSavedAfter);
  const bool in_names = request_.after().starts_with(kNamesAfter);
  if (!in_saved && !in_names) KINTSUGI_TRY(check_tree());
  // What is in snapshots alone comes last: after the tree, and on pages that begin with the key of a saved extent or a
  // place among names.
  if (!response_.more()) check_snapshots(in_saved, in_names);
  name_hanging_servers();
  for (proto::ServerName& name : known_.reports.not_reported())
    *response_.add_not_reported() = std::move(name);
  return {};
}

void FsckPage::check_snapshots(bool in_saved, bool in_names) {
  if (!known_.names.snapshots.any()) return;
  const auto root = known_.names.places.at(request_.path().empty() ? "/" : request_.path());
  if (!root || root->slot() != 0 || root->lists_snapshots()) return;
  const std::string_view after = request_.after();
  if (in_names) {
    const std::string next =
        FsckNames(known_.names.snapshots, reader_, response_).check(root->id(), after.substr(1));
    if (!next.empty()) end_at(kNamesAfter + next, 0);
    return;
  }
  check_saved(root->id(), in_saved ? after.substr(1) : "");
  if (!response_.more()) end_at(std::string(1, kNamesAfter), 0);  // names are checked on pages of their own
}

void FsckPage::check_saved(InodeId root, std::string_view after) {
  const auto snapshots = known_.names.snapshots.below(reader_, root);
  keys::Range range = keys::SavedKey::values_in(keys::all(keys::Kind::kExtent));
  if (!after.empty()) range.begin = std::string(after) + '\0';
  std::set<uint64_t> seen;
  reader_.scan(range, [&](std::string_view key, std::string_view value) {
    ++inodes_;
    const keys::SavedKey at = keys::SavedKey::of_value(key);
    const auto snapshot = snapshots.find(at.number);
    const SavedValue saved = SavedValue::parse(value);
    if (snapshot != snapshots.end() && saved.value) {
      const StripeId stripe{Reader::parse<proto::StoredExtent>(*saved.value).stripe_id()};
      if (seen.insert(stripe.value).second)
        check_stripe(fmt::format("{} (content {})", snapshot->second, keys::first_id(at.key)), stripe);
    }
    if (!full()) return true;
    end_at(kSavedAfter + std::string(key), 0);
    return false;
  });
}

Status FsckPage::check_tree() {
  KINTSUGI_ASSIGN(TreeWalk tree, TreeWalk::start(reader_, request_.path().empty() ? "/" : request_.path(),
                                                 request_.after()));
  if (request_.from_offset() == 0 || continue_file()) {
    while (std::optional<TreeWalk::Item> item = tree.next(reader_)) {
      ++inodes_;
      if (is_directory(item->inode)) {
        response_.set_directories(response_.directories() + 1);
      } else {
        response_.set_files(response_.files() + 1);
        if (!check_file(item->path, content_of(item->id, item->inode), 0)) break;
      }
      if (!full()) continue;
      end_at(item->path, 0);
      break;
    }
  }
  return {};
}

bool FsckPage::continue_file() {
  const auto path = Path::parse(request_.after());
  if (!path) return true;  // TreeWalk::start has parsed the path
  const auto entry = walk(reader_, path->names);
  if (!entry || entry->is_directory()) return true;  // the file was removed or replaced in the meantime
  if (!check_file(request_.after(), content_of(entry->id, load_inode(reader_, entry->id)),
                  request_.from_offset()))
    return false;
  if (!full()) return true;
  end_at(request_.after(), 0);
  return false;
}

bool FsckPage::full_of_extents() const {
  return extents_ >= kFsckExtentsOfAPage || response_.stripes() >= kFsckStripesOfAPage ||
         response_.problems_size() >= kFsckProblemsOfAPage || listed_bytes_ >= kFsckListedBytesOfAPage;
}

void FsckPage::end_at(const std::string& path, uint64_t from) {
  response_.set_more(true);
  response_.set_next_after(path);
  response_.set_next_from_offset(from);
}

bool FsckPage::check_file(const std::string& path, InodeId content, uint64_t from) {
  std::set<uint64_t> seen;
  bool all = true;
  scan_extents(reader_, content, from, [&](const proto::Extent& extent) {
    // Never at the first extent of a file: the page was not full when the file began.
    if (full_of_extents()) {
      end_at(path, extent.file_offset());
      return all = false;
    }
    ++extents_;
    if (seen.insert(extent.stripe_id()).second) check_stripe(path, StripeId{extent.stripe_id()});
    return true;
  });
  return all;
}

void FsckPage::check_stripe(const std::string& path, StripeId id) {
  response_.set_stripes(response_.stripes() + 1);
  proto::FsckProblem problem;
  const auto stored = load_stripe(reader_, id);
  if (!stored) {
    problem.set_lost(true);
    problem.set_detail("the stripe has no record");
    return add(std::move(problem), path, id);
  }
  if (is_inline(*stored)) return;  // its bytes are as safe as its record
  const auto policy = erasure::Policy::parse(stored->policy());
  KINTSUGI_ASSERT(policy);
  const auto code = erasure::Code::get(*policy);
  const Stripe stripe{path, id, *stored, *code};
  response_.set_chunks(response_.chunks() + static_cast<uint64_t>(stored->chunks_size()));
  const std::vector<uint32_t> available = known_.chunks.available_chunks(id, *stored);
  for (uint32_t i = 0; i < static_cast<uint32_t>(stored->chunks_size()); ++i) {
    if (!std::binary_search(available.begin(), available.end(), i)) problem.add_missing(i);
  }
  problem.set_lost(!code->decodable(available));
  problem.set_detail(describe_available(*code, available.size(), problem.lost()));
  note_hanging(stripe, available);
  if (request_.with_stripes()) list(stripe);
  if (problem.lost() || problem.missing_size() > 0) add(std::move(problem), path, id);
}

void FsckPage::note_hanging(const Stripe& stripe, const std::vector<uint32_t>& available) {
  std::vector<uint32_t> answering;
  for (uint32_t i : available) {
    const proto::StoredChunk& chunk = stripe.stored.chunks(static_cast<int>(i));
    if (chunk.length() == 0) {
      answering.push_back(i);
      continue;
    }
    response_.set_stored_chunks(response_.stored_chunks() + 1);
    response_.set_stored_bytes(response_.stored_bytes() + chunk.length());
    const ServerId server{chunk.server_id()};
    const ServerRecord* record = known_.servers.find(server);
    if (record && known_.servers.silent(*record)) {
      response_.set_hanging_chunks(response_.hanging_chunks() + 1);
      ++hanging_[server];
    } else {
      answering.push_back(i);
    }
  }
  if (answering.size() == available.size()) return;
  if (stripe.code.decodable(available) && !stripe.code.decodable(answering))
    response_.set_waiting_stripes(response_.waiting_stripes() + 1);
}

void FsckPage::list(const Stripe& stripe) {
  proto::FsckStripe* listed = response_.add_listed();
  listed->set_path(stripe.path);
  *listed->mutable_stripe() =
      known_.describer.describe(stripe.id, stripe.stored, rpc::kOpRead, kReadCapabilityLife);
  listed_bytes_ += listed->ByteSizeLong();
}

void FsckPage::add(proto::FsckProblem problem, const std::string& path, StripeId id) {
  response_.set_missing_chunks(response_.missing_chunks() + static_cast<uint64_t>(problem.missing_size()));
  if (problem.lost()) {
    response_.set_lost_stripes(response_.lost_stripes() + 1);
  } else {
    response_.set_degraded_stripes(response_.degraded_stripes() + 1);
  }
  problem.set_path(path);
  problem.set_stripe_id(id.value);
  // The page ends before the next stripe when this was the last problem that it has room for.
  if (response_.problems_size() < kFsckProblemsOfAPage) *response_.add_problems() = std::move(problem);
}

void FsckPage::name_hanging_servers() {
  for (const auto& [id, chunks] : hanging_) {
    if (response_.hanging_size() >= kFsckServersOfAPage) return;
    const ServerRecord* record = known_.servers.find(id);
    KINTSUGI_ASSERT(record);  // there was no wait since the file was found
    const proto::ServerState server = known_.servers.state_of(*record);
    proto::FsckHanging* hanging = response_.add_hanging();
    *hanging->mutable_server() = known_.servers.names().of(id);
    hanging->set_address(server.address());
    hanging->set_liveness(server.liveness());
    hanging->set_seconds_since_heartbeat(server.seconds_since_heartbeat());
    hanging->set_chunks(chunks);
  }
}

}  // namespace kintsugi::metaserver
