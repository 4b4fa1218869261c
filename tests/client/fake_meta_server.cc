#include "common/base/crc32c.h"
#include "erasure/layout.h"
#include "erasure/repair_equation.h"
#include "tests/client/fake_cluster.h"

namespace kintsugi::client {

FakeMetaServer::FakeMetaServer(simulation::Simulation& simulation,
                               std::vector<std::unique_ptr<FakeChunkServer>>& servers)
    : node(simulation, "meta"), servers_(servers), simulation_(simulation) {}

asio::awaitable<void> FakeMetaServer::stop() {
  sleeping_->request_stop();
  co_await server_->stop();
  co_await sleeping_->join();
}

template <class Request, class Response>
void FakeMetaServer::answer(rpc::Method method,
                            Status (FakeMetaServer::*function)(const Request&, Response&)) {
  server_->handle(
      method,
      [this, function](Context, const Request& request, Response& response) -> asio::awaitable<Status> {
        co_return (this->*function)(request, response);
      });
}

template <class Request, class Response>
void FakeMetaServer::answer_change(rpc::Method method,
                                   Status (FakeMetaServer::*function)(const Request&, Response&)) {
  server_->handle(
      method,
      [this, method, function](Context, const Request& request,
                               Response& response) -> asio::awaitable<Status> {
        constexpr uint64_t kAskedTwice = 4;
        if (latest_answer > Duration{} && lose_answers == 0 && simulation_.random().below(kAskedTwice) == 0)
          lose_answers = 1;
        const Status status = (this->*function)(request, response);
        Duration wait = answers_after[method];
        if (latest_answer > Duration{})
          wait += Duration{simulation_.random().below(static_cast<uint64_t>(latest_answer.count()))};
        if (wait > Duration{}) (void)co_await sleeping_->sleep_for(wait);
        co_return status;
      });
}

void FakeMetaServer::start() {
  using rpc::Method;
  sleeping_ = std::make_unique<runtime::TaskGroup>(node.runtime());
  server_ = std::make_unique<rpc::Server>(node.runtime(), rpc::Secret{}, nullptr);
  answer(Method::kPing, &FakeMetaServer::ping);
  answer(Method::kStat, &FakeMetaServer::stat);
  answer(Method::kMakeDirectory, &FakeMetaServer::make_directory);
  answer(Method::kAllocateStripe, &FakeMetaServer::allocate);
  answer(Method::kReplaceChunk, &FakeMetaServer::replace);
  answer(Method::kSealStripe, &FakeMetaServer::seal_stripe);
  answer(Method::kCommitFile, &FakeMetaServer::commit);
  answer(Method::kAbortUpload, &FakeMetaServer::abort);
  answer(Method::kOpenRead, &FakeMetaServer::open_read);
  answer(Method::kReportChunk, &FakeMetaServer::report);
  answer(Method::kShowStripe, &FakeMetaServer::show_stripe);
  answer(Method::kFsck, &FakeMetaServer::fsck);
  answer(Method::kRepairHistory, &FakeMetaServer::repair_history);
  answer(Method::kPlanRead, &FakeMetaServer::plan_read);
  answer(Method::kFinishRead, &FakeMetaServer::finish_read);
  answer(Method::kGetInode, &FakeMetaServer::get_inode);
  answer_change(Method::kSetAttributes, &FakeMetaServer::set_attributes);
  answer_change(Method::kWriteExtents, &FakeMetaServer::write_extents);
  answer_change(Method::kCopyExtents, &FakeMetaServer::copy_extents);
  answer(Method::kKeepSession, &FakeMetaServer::keep_session);
  answer(Method::kWriteNames, &FakeMetaServer::write_names);
  KINTSUGI_ASSERT(server_->start(endpoint()).ok());
}

Status FakeMetaServer::ping(const proto::Empty&, proto::Empty&) {
  return refuses_pings;
}

Status FakeMetaServer::stat(const proto::StatRequest& request, proto::StatResponse& response) {
  const auto found = files.find(request.path());
  if (found == files.end()) return {Code::kNotFound, request.path()};
  *response.mutable_attributes() = found->second.attributes;
  return {};
}

Status FakeMetaServer::make_directory(const proto::MakeDirectoryRequest& request, proto::Empty&) {
  if (files.contains(request.path())) return {Code::kAlreadyExists, request.path()};
  files[request.path()].attributes.set_type(proto::Attributes::DIRECTORY);
  return {};
}

Status FakeMetaServer::seal_stripe(const proto::SealStripeRequest& request, proto::Empty&) {
  return seal(request.sealed());
}

Status FakeMetaServer::abort(const proto::AbortUploadRequest&, proto::Empty&) {
  ++aborts;
  return {};
}

Status FakeMetaServer::report(const proto::ReportChunkRequest& request, proto::Empty&) {
  reports.push_back(request);
  if (believes_reports) lost[{StripeId{request.stripe_id()}, request.index()}] = 0;
  return {};
}

Status FakeMetaServer::fsck(const proto::FsckRequest& request, proto::FsckResponse& response) {
  // A page is one extent, so that tests turn pages, inside of files, too.
  const bool inside = request.from_offset() > 0;
  const auto found = inside ? files.find(request.after()) : files.upper_bound(request.after());
  if (found == files.end()) return {};
  const std::vector<proto::Extent>& extents = found->second.extents;
  const auto extent_at = std::ranges::find_if(
      extents, [&](const proto::Extent& extent) { return extent.file_offset() >= request.from_offset(); });
  if (extent_at != extents.end()) {
    const proto::Extent& extent = *extent_at;
    const proto::Stripe stripe = located(stripes.at(extent.stripe_id()));
    for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
      if (chunk.length() == 0 || !chunk.available()) continue;
      response.set_stored_chunks(response.stored_chunks() + 1);
      response.set_stored_bytes(response.stored_bytes() + chunk.length());
    }
    if (request.with_stripes()) {
      proto::FsckStripe* listed = response.add_listed();
      listed->set_path(found->first);
      *listed->mutable_stripe() = stripe;
    }
  }
  const bool is_last = extent_at == extents.end() || extent_at + 1 == extents.end();
  response.set_next_from_offset(is_last ? 0 : (extent_at + 1)->file_offset());
  response.set_more(true);
  response.set_next_after(found->first);
  return {};
}

Status FakeMetaServer::repair_history(const proto::RepairHistoryRequest&,
                                      proto::RepairHistoryResponse& response) {
  for (const proto::RepairRecord& record : history)
    *response.add_records() = record;
  return {};
}

Status FakeMetaServer::show_stripe(const proto::ShowStripeRequest& request,
                                   proto::ShowStripeResponse& response) {
  const auto found = stripes.find(request.stripe_id());
  if (found == stripes.end()) return {Code::kNotFound, "no such stripe"};
  for (const proto::ChunkPlacement& chunk : found->second.chunks()) {
    const auto looked = lost.find({StripeId{request.stripe_id()}, chunk.index()});
    if (looked != lost.end() && looks_until_repaired && looked->second++ >= *looks_until_repaired)
      lost.erase(looked);
  }
  *response.mutable_stripe() = located(found->second);
  return {};
}

Status FakeMetaServer::finish_read(const proto::FinishReadRequest& request, proto::Empty&) {
  finished_reads.push_back(request);
  return {};
}

FakeChunkServer* FakeMetaServer::find(uint64_t server) {
  return server == 0 || server > servers_.size() ? nullptr : servers_[server - 1].get();
}

proto::ChunkPlacement FakeMetaServer::place(uint32_t index, const std::set<uint64_t>& exclude) {
  proto::ChunkPlacement chunk;
  chunk.set_index(index);
  for (size_t tried = 0; tried < servers_.size(); ++tried) {
    const uint64_t server = next_server_++ % servers_.size() + 1;
    if (exclude.contains(server) || known_dead.contains(server)) continue;
    chunk.set_server_id(server);
    chunk.set_address(find(server)->address());
    return chunk;
  }
  return chunk;
}

Status FakeMetaServer::allocate(const proto::AllocateStripeRequest& request,
                                proto::AllocateStripeResponse& response) {
  ++allocations;
  const std::string& name = request.policy().empty() ? policy : request.policy();
  KINTSUGI_ASSIGN(const erasure::Policy of_file, erasure::Policy::parse(name));
  const bool copies = request.file_bytes() > 0 && request.file_bytes() <= of_file.cell_bytes;
  const erasure::Policy parsed = copies ? of_file.as_copies() : of_file;
  std::set<uint64_t> used(request.exclude().begin(), request.exclude().end());
  proto::Stripe& stripe = *response.mutable_stripe();
  stripe.set_stripe_id(next_id_++);
  stripe.set_policy(parsed.name());
  for (uint32_t index = 0; index < parsed.chunks(); ++index) {
    *stripe.add_chunks() = place(index, used);
    const uint64_t server = stripe.chunks(static_cast<int>(index)).server_id();
    if (server == 0) return {Code::kUnavailable, "too few servers"};
    used.insert(server);
  }
  response.set_upload_id(request.upload_id() == 0 ? next_id_++ : request.upload_id());
  response.set_max_chunk_bytes(chunk_bytes);
  response.set_ticket(fmt::format("ticket {} 0", stripe.stripe_id()));
  tickets_[stripe.stripe_id()] = response.ticket();
  response.set_file_policy(of_file.name());
  response.set_default_policy(policy);
  return {};
}

Status FakeMetaServer::replace(const proto::ReplaceChunkRequest& request,
                               proto::ReplaceChunkResponse& response) {
  const uint64_t stripe = request.stripe().stripe_id();
  if (request.ticket() != tickets_[stripe]) return {Code::kPermissionDenied, "wrong ticket"};
  std::set<uint64_t> used(request.exclude().begin(), request.exclude().end());
  for (const proto::ChunkPlacement& chunk : request.stripe().chunks())
    used.insert(chunk.server_id());
  *response.mutable_chunk() = place(request.index(), used);
  if (response.chunk().server_id() == 0) return {Code::kUnavailable, "no other server"};
  response.set_ticket(fmt::format("ticket {} {}", stripe, ++replacements));
  tickets_[stripe] = response.ticket();
  return {};
}

Status FakeMetaServer::seal(const proto::SealedStripe& sealed) {
  const proto::Stripe& stripe = sealed.stripe();
  if (sealed.ticket() != tickets_[stripe.stripe_id()]) return {Code::kPermissionDenied, "wrong ticket"};
  KINTSUGI_ASSIGN(const erasure::Policy parsed, erasure::Policy::parse(stripe.policy()));
  std::vector<uint32_t> missing;
  for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
    if (chunk.length() != erasure::chunk_length(parsed, stripe.length(), chunk.index())) {
      return {Code::kInvalidArgument, fmt::format("chunk {} has the wrong length", chunk.index())};
    }
    if (chunk.server_id() == 0 && chunk.length() > 0) missing.push_back(chunk.index());
  }
  if (!erasure::Code::get(parsed)->may_lack(missing))
    return {Code::kInvalidArgument, "too many chunks missing"};
  stripes[stripe.stripe_id()] = stripe;
  return {};
}

Status FakeMetaServer::commit(const proto::CommitFileRequest& request, proto::CommitFileResponse& response) {
  if (files.contains(request.path()) && !request.replace()) return {Code::kAlreadyExists, request.path()};
  for (const proto::SealedStripe& sealed : request.sealed())
    KINTSUGI_TRY(seal(sealed));
  File file;
  uint64_t end = 0;
  for (const proto::Extent& extent : request.extents()) {
    if (extent.length() == 0 || extent.file_offset() < end || !stripes.contains(extent.stripe_id()) ||
        extent.stripe_offset() + extent.length() > stripes[extent.stripe_id()].length())
      return {Code::kInvalidArgument, "extents make no sense"};
    end = extent.file_offset() + extent.length();
    file.extents.push_back(extent);
  }
  if (end > request.size()) return {Code::kInvalidArgument, "extents go beyond the end of the file"};
  file.attributes.set_size(request.size());
  file.attributes.set_mode(request.mode());
  file.attributes.set_modified_ns(request.modified_ns());
  file.attributes.set_policy(request.policy());
  files[request.path()] = file;
  *response.mutable_attributes() = file.attributes;
  return {};
}

Status FakeMetaServer::open_read(const proto::OpenReadRequest& request, proto::OpenReadResponse& response) {
  constexpr int kMaxStripes = 2;  // few, so that tests turn pages
  ++locates;
  if (request.inode() != 0 ? !inodes.contains(request.inode()) : !files.contains(request.path()))
    return {Code::kNotFound, request.path()};
  const File& file = request.inode() != 0 ? inodes.at(request.inode()) : files.at(request.path());
  *response.mutable_attributes() = file.attributes;
  response.mutable_slow_servers()->Add(slow.begin(), slow.end());
  const uint64_t end = request.length() == 0 ? UINT64_MAX : request.offset() + request.length();
  for (const proto::Extent& extent : file.extents) {
    if (extent.file_offset() + extent.length() <= request.offset() || extent.file_offset() >= end) continue;
    const bool known = std::ranges::any_of(response.stripes(), [&](const proto::Stripe& stripe) {
      return stripe.stripe_id() == extent.stripe_id();
    });
    if (!known && response.stripes_size() == kMaxStripes) {
      response.set_more(true);
      break;
    }
    *response.add_extents() = extent;
    if (!known) *response.add_stripes() = located(stripes.at(extent.stripe_id()));
  }
  return {};
}

proto::Stripe FakeMetaServer::located(proto::Stripe stripe) {
  for (proto::ChunkPlacement& chunk : *stripe.mutable_chunks()) {
    const FakeChunkServer* server = find(chunk.server_id());
    const bool dead = known_dead.contains(chunk.server_id());
    chunk.set_available(server != nullptr && !dead &&
                        !lost.contains({StripeId{stripe.stripe_id()}, chunk.index()}));
    if (server != nullptr) chunk.set_address(dead ? "" : server->address());
    chunk.set_capability(fmt::format("read {}:{}", stripe.stripe_id(), chunk.index()));
  }
  return stripe;
}

Status FakeMetaServer::plan_read(const proto::PlanReadRequest& request, proto::PlanReadResponse& response) {
  constexpr uint64_t kSliceBytes = kBlockBytes;
  plan_requests.push_back(request);
  if (!plans_reads) return {Code::kUnavailable, "no plans today"};
  if (request.capability() != fmt::format("read {}:{}", request.stripe_id(), request.index()))
    return {Code::kPermissionDenied, "not this chunk's capability"};
  const proto::Stripe stripe = located(stripes.at(request.stripe_id()));
  KINTSUGI_ASSIGN(const erasure::Policy parsed, erasure::Policy::parse(stripe.policy()));
  const std::set<uint64_t> exclude(request.exclude().begin(), request.exclude().end());
  std::vector<uint32_t> candidates;
  for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
    if (chunk.index() != request.index() && chunk.available() && !exclude.contains(chunk.server_id()))
      candidates.push_back(chunk.index());
  }
  const std::vector<uint32_t> lost{request.index()};
  KINTSUGI_ASSIGN(erasure::RepairEquation equation,
                  erasure::repair_equation(*erasure::Code::get(parsed), lost, candidates));
  if (wrong_coefficient) equation.terms.front().coefficients.front() ^= 1;
  proto::SumPlan& plan = *response.mutable_plan();
  plan.set_stripe_id(request.stripe_id());
  plan.set_repair_id(plan_requests.size());
  plan.set_chunk_length(stripe.chunks(static_cast<int>(request.index())).length());
  plan.set_offset(request.offset() / kBlockBytes * kBlockBytes);
  const uint64_t end = (request.offset() + request.length() + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  plan.set_length(std::min(end, plan.chunk_length()) - plan.offset());
  plan.set_slice_bytes(request.slice_bytes() == 0 ? kSliceBytes : request.slice_bytes());
  plan.set_rows(1);
  const bool star = request.shape() == proto::RepairShape::STAR;
  plan.set_shape(star ? proto::RepairShape::STAR : proto::RepairShape::CHAIN);
  auto* children = plan.mutable_children();
  for (const erasure::RepairEquation::Term& term : equation.terms) {
    const proto::ChunkPlacement& place = stripe.chunks(static_cast<int>(term.helper));
    proto::RepairNode& node = *children->Add();
    node.set_server_id(place.server_id());
    node.set_address(place.address());
    node.set_index(term.helper);
    node.set_chunk_length(place.length());
    node.set_coefficients(term.coefficients.data(), term.coefficients.size());
    node.set_sums(1);
    if (!star) children = node.mutable_children();
  }
  return {};
}

}  // namespace kintsugi::client
