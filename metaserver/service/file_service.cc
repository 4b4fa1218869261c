#include "metaserver/service/file_service.h"

#include "erasure/policy.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kOpenRead{"metaserver.open_read", {"offset"}, {"stripes"}};
constexpr sight::Site kSealStripe{"metaserver.seal_stripe", {"bytes"}};
constexpr sight::Site kCommitFile{"metaserver.commit_file", {"bytes", "extents"}};
constexpr sight::Site kAbortUpload{"metaserver.abort_upload"};
constexpr sight::Site kKeepUpload{"metaserver.keep_upload"};

}  // namespace

void FileService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&FileService::open_read>(Method::kOpenRead, *this);
  server.handle<&FileService::seal_stripe>(Method::kSealStripe, *this);
  server.handle<&FileService::commit_file>(Method::kCommitFile, *this);
  server.handle<&FileService::abort_upload>(Method::kAbortUpload, *this);
  server.handle<&FileService::keep_upload>(Method::kKeepUpload, *this);
}

Status FileService::read_extents(const proto::OpenReadRequest& request,
                                 proto::OpenReadResponse& response) const {
  const Reader reader(state_.store);
  KINTSUGI_ASSIGN(*response.mutable_attributes(), state_.names.stat(reader, request.path()));
  const proto::Attributes& attributes = response.attributes();
  if (attributes.type() == proto::Attributes::DIRECTORY) {
    return {Code::kIsDirectory, request.path() + " is a directory"};
  }
  if (request.offset() >= attributes.size()) return {};
  const uint64_t left = attributes.size() - request.offset();
  const uint64_t end = request.offset() + (request.length() == 0 ? left : std::min(left, request.length()));
  const auto stored = reader.get_message<proto::StoredExtents>(keys::extents(InodeId{attributes.inode()}));
  KINTSUGI_ASSERT(stored);
  std::set<uint64_t> stripes;
  for (const proto::Extent& extent : stored->extents()) {
    if (extent.file_offset() + extent.length() <= request.offset()) continue;
    if (extent.file_offset() >= end) break;
    if (!stripes.contains(extent.stripe_id())) {
      if (response.stripes_size() == kMaxStripesOfOpenRead) {
        response.set_more(true);
        break;
      }
      const StripeId id{extent.stripe_id()};
      const auto stripe = load_stripe(reader, id);
      KINTSUGI_ASSERT(stripe);
      *response.add_stripes() = state_.describe(id, *stripe, rpc::kOpRead, kReadCapabilityLife);
      stripes.insert(extent.stripe_id());
    }
    *response.add_extents() = extent;
  }
  return {};
}

asio::awaitable<Status> FileService::open_read(Context context, const proto::OpenReadRequest& request,
                                               proto::OpenReadResponse& response) {
  sight::Module module{context, kOpenRead, {double(request.offset())}};
  const Status read = read_extents(request, response);
  module.output(0, response.stripes_size());
  co_return module.finish(co_await state_.finish_read(read));
}

void FileService::report_missing(const std::vector<ChunkId>& missing) {
  for (ChunkId chunk : missing)
    state_.host->chunk_lost(chunk, "missing since the write");
}

void FileService::report_unreachable(const proto::SealedStripe& sealed) {
  for (const proto::ChunkPlacement& chunk : sealed.stripe().chunks()) {
    if (chunk.server_id() == 0 || chunk.length() == 0 || !state_.servers.is_dead(ServerId{chunk.server_id()}))
      continue;
    state_.host->chunk_lost({StripeId{sealed.stripe().stripe_id()}, chunk.index()},
                            fmt::format("server {} died before the stripe was sealed",
                                        state_.servers.name_of(ServerId{chunk.server_id()})));
  }
}

void FileService::note_placed(const proto::SealedStripe& sealed) {
  const StripeId stripe{sealed.stripe().stripe_id()};
  const auto allocated = state_.allocations.allocated_at(stripe);
  for (const proto::ChunkPlacement& chunk : sealed.stripe().chunks()) {
    const ServerId server{chunk.server_id()};
    if (!server) continue;
    state_.chunks.set_placed({stripe, chunk.index()}, server);
    state_.block_reports.note_sealed(server, allocated);
  }
}

asio::awaitable<Status> FileService::seal_stripe(Context context, const proto::SealStripeRequest& request,
                                                 Empty&) {
  sight::Module module{context, kSealStripe, {double(request.sealed().stripe().length())}};
  Transaction transaction(state_.store);
  std::vector<ChunkId> missing;
  const Status sealed =
      state_.uploads.seal(transaction, UploadId{request.upload_id()}, request.sealed(), missing);
  // Before the commit suspends: a block report that was collected earlier may come in meanwhile.
  if (sealed.ok() && !transaction.empty()) note_placed(request.sealed());
  KINTSUGI_CO_TRY(module.finish(co_await state_.finish(module.context(), sealed, transaction)));
  report_missing(missing);
  report_unreachable(request.sealed());
  co_return Status{};
}

std::optional<proto::Attributes> FileService::committed_before(
    const proto::CommitFileRequest& request) const {
  if (request.upload_id() == 0) return std::nullopt;
  const Reader reader(state_.store);
  const Result<proto::Attributes> existing = state_.names.stat(reader, request.path());
  if (!existing) return std::nullopt;
  const proto::StoredInode inode = load_inode(reader, InodeId{existing->inode()});
  if (inode.upload_id() != request.upload_id()) return std::nullopt;
  return *existing;
}

Result<proto::Attributes> FileService::commit(Transaction& transaction,
                                              const proto::CommitFileRequest& request,
                                              std::vector<ChunkId>& missing, FreedStripes& freed) {
  KINTSUGI_TRY(state_.check_room());
  NewFile file;
  file.mode = request.mode();
  file.uid = request.uid();
  file.gid = request.gid();
  file.modified_ns = request.modified_ns();
  file.size = request.size();
  file.upload_id = request.upload_id();
  KINTSUGI_ASSIGN(Uploads::Committed committed, state_.uploads.commit(transaction, request, missing, freed));
  file.extents = std::move(committed.extents);
  file.stored_bytes = committed.stored_bytes;
  file.policy = std::move(committed.policy);
  if (file.policy.empty() && !request.policy().empty()) {
    KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(request.policy()));
    file.policy = policy.name();
  }
  if (file.policy.empty()) {
    KINTSUGI_ASSIGN(const proto::GetPolicyResponse inherited,
                    state_.policies.for_new_file(transaction.store(), request.path()));
    file.policy = inherited.policy();
  }
  return state_.names.put_file(transaction, request.path(), std::move(file), request.replace(), freed);
}

asio::awaitable<Status> FileService::commit_file(Context context, const proto::CommitFileRequest& request,
                                                 proto::CommitFileResponse& response) {
  sight::Module module{context, kCommitFile, {double(request.size()), double(request.extents_size())}};
  if (std::optional<proto::Attributes> before = committed_before(request)) {
    *response.mutable_attributes() = std::move(*before);
    co_return module.finish(co_await state_.finish_read());
  }
  Transaction transaction(state_.store);
  std::vector<ChunkId> missing;
  FreedStripes freed;
  const Status made = extract(commit(transaction, request, missing, freed), *response.mutable_attributes());
  if (made.ok()) {
    for (const proto::SealedStripe& sealed : request.sealed())
      note_placed(sealed);
    state_.uploads.ended(UploadId{request.upload_id()});
  }
  KINTSUGI_CO_TRY(
      module.finish(co_await state_.finish(module.context(), made, transaction, std::move(freed))));
  report_missing(missing);
  for (const proto::SealedStripe& sealed : request.sealed())
    report_unreachable(sealed);
  co_return Status{};
}

asio::awaitable<Status> FileService::keep_upload(Context context, const proto::KeepUploadRequest& request,
                                                 Empty&) {
  sight::Module module{context, kKeepUpload};
  const UploadId upload{request.upload_id()};
  const Status kept =
      upload ? state_.uploads.use(upload) : Status{Code::kInvalidArgument, "upload 0 is none"};
  co_return module.finish(co_await state_.finish_read(kept));
}

asio::awaitable<Status> FileService::abort_upload(Context context, const proto::AbortUploadRequest& request,
                                                  Empty&) {
  sight::Module module{context, kAbortUpload};
  Transaction transaction(state_.store);
  std::vector<ServerId> servers;
  state_.uploads.abort(transaction, UploadId{request.upload_id()}, servers);
  KINTSUGI_CO_TRY(module.finish(co_await state_.finish(module.context(), {}, transaction)));
  for (ServerId server : servers)
    state_.garbage.wake(server);
  co_return Status{};
}

}  // namespace kintsugi::metaserver
