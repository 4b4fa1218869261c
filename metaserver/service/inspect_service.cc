#include "metaserver/service/inspect_service.h"

#include <algorithm>

#include "erasure/code.h"
#include "erasure/policy.h"
#include "metaserver/namespace/tree_walk.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kListServers{"metaserver.list_servers"};
constexpr sight::Site kShowStripe{"metaserver.show_stripe"};
constexpr sight::Site kFsck{"metaserver.fsck", {}, {"files", "problems"}};

std::shared_ptr<const erasure::Code> code_of(const proto::StoredStripe& stripe) {
  const auto policy = erasure::Policy::parse(stripe.policy());
  KINTSUGI_ASSERT(policy);
  return erasure::Code::get(*policy);
}

std::string describe_available(const erasure::Code& code, size_t available, bool lost) {
  if (code.policy().family != erasure::Policy::Family::kLocal)
    return fmt::format("{} of {} chunks are available, {} are needed", available, code.chunks(), code.k());
  return fmt::format("{} of {} chunks are available, which {}", available, code.chunks(),
                     lost ? "do not suffice" : "suffice");
}

}  // namespace

void InspectService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&InspectService::list_servers>(Method::kListServers, *this);
  server.handle<&InspectService::show_stripe>(Method::kShowStripe, *this);
  server.handle<&InspectService::fsck>(Method::kFsck, *this);
  server.handle<&InspectService::ping>(Method::kPing, *this);
}

asio::awaitable<Status> InspectService::ping(Context, const Empty&, Empty&) {
  co_return Status{};
}

asio::awaitable<Status> InspectService::list_servers(Context context, const Empty&,
                                                     proto::ListServersResponse& response) {
  sight::Module module{context, kListServers};
  for (const auto& [id, server] : state_.servers.servers())
    *response.add_servers() = state_.state_of(server);
  co_return module.finish(co_await state_.finish_read());
}

Status InspectService::describe_stripe(StripeId id, proto::ShowStripeResponse& response) const {
  const auto stored = load_stripe(state_.store, id);
  if (!stored) return {Code::kNotFound, fmt::format("stripe {} does not exist", id)};
  *response.mutable_stripe() = state_.describe(id, *stored, rpc::kOpRead, kReadCapabilityLife);
  for (const proto::StoredChunk& chunk : stored->chunks()) {
    if (const ServerRecord* server = state_.servers.find(ServerId{chunk.server_id()})) {
      *response.add_servers() = state_.state_of(*server);
    }
  }
  const std::vector<uint32_t> available = state_.chunks.available_chunks(id, *stored);
  const bool whole = available.size() == static_cast<size_t>(stored->chunks_size());
  response.set_state(whole ? "healthy" : code_of(*stored)->decodable(available) ? "degraded" : "lost");
  return {};
}

asio::awaitable<Status> InspectService::show_stripe(Context context, const proto::ShowStripeRequest& request,
                                                    proto::ShowStripeResponse& response) {
  sight::Module module{context, kShowStripe};
  const Status described = describe_stripe(StripeId{request.stripe_id()}, response);
  co_return module.finish(co_await state_.finish_read(described));
}

void InspectService::check_file(const Reader& reader, const std::string& path, InodeId inode,
                                proto::FsckResponse& response, size_t& stripes) const {
  const auto extents = reader.get_message<proto::StoredExtents>(keys::extents(inode));
  if (!extents) return;
  std::set<uint64_t> seen;
  for (const proto::Extent& extent : extents->extents()) {
    if (!seen.insert(extent.stripe_id()).second) continue;
    ++stripes;
    const StripeId id{extent.stripe_id()};
    const auto stripe = load_stripe(reader, id);
    proto::FsckProblem problem;
    if (!stripe) {
      problem.set_lost(true);
      problem.set_detail("the stripe has no record");
    } else {
      response.set_chunks(response.chunks() + static_cast<uint64_t>(stripe->chunks_size()));
      const std::vector<uint32_t> available = state_.chunks.available_chunks(id, *stripe);
      for (uint32_t i = 0; i < static_cast<uint32_t>(stripe->chunks_size()); ++i) {
        if (!std::binary_search(available.begin(), available.end(), i)) problem.add_missing(i);
      }
      const auto code = code_of(*stripe);
      problem.set_lost(!code->decodable(available));
      problem.set_detail(describe_available(*code, available.size(), problem.lost()));
    }
    response.set_stripes(response.stripes() + 1);
    response.set_missing_chunks(response.missing_chunks() + static_cast<uint64_t>(problem.missing_size()));
    if (problem.lost()) {
      response.set_lost_stripes(response.lost_stripes() + 1);
    } else if (problem.missing_size() > 0) {
      response.set_degraded_stripes(response.degraded_stripes() + 1);
    } else {
      continue;
    }
    problem.set_path(path);
    problem.set_stripe_id(id.value);
    // A file's problems beyond the limit are counted but not listed: pages continue at files, and must not grow.
    if (response.problems_size() < kFsckProblemsOfAPage) *response.add_problems() = std::move(problem);
  }
}

Status InspectService::fsck_page(const Reader& reader, const proto::FsckRequest& request,
                                 proto::FsckResponse& response) const {
  KINTSUGI_ASSIGN(TreeWalk tree,
                  TreeWalk::start(reader, request.path().empty() ? "/" : request.path(), request.after()));
  size_t inodes = 0, stripes = 0;
  while (std::optional<TreeWalk::Item> item = tree.next(reader)) {
    if (is_directory(item->inode)) {
      response.set_directories(response.directories() + 1);
    } else {
      response.set_files(response.files() + 1);
      check_file(reader, item->path, item->id, response, stripes);
    }
    if (++inodes < kFsckInodesOfAPage && stripes < kFsckStripesOfAPage &&
        response.problems_size() < kFsckProblemsOfAPage) {
      continue;
    }
    response.set_more(true);
    response.set_next_after(item->path);
    break;
  }
  return {};
}

asio::awaitable<Status> InspectService::fsck(Context context, const proto::FsckRequest& request,
                                             proto::FsckResponse& response) {
  sight::Module module{context, kFsck};
  const std::unique_ptr<const ReadView> snapshot = state_.store.snapshot();
  const Status checked = fsck_page(*snapshot, request, response);
  module.output(0, double(response.files()));
  module.output(1, double(response.problems_size()));
  co_return module.finish(co_await state_.finish_read(checked));
}

}  // namespace kintsugi::metaserver
