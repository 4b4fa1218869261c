#include "metaserver/service/file_service.h"

#include "erasure/policy.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kOpenRead{"metaserver.open_read", {"offset"}, {"stripes"}};
constexpr sight::Site kSealStripe{"metaserver.seal_stripe", {"bytes"}};
constexpr sight::Site kCommitFile{"metaserver.commit_file", {"bytes", "extents"}};
constexpr sight::Site kAbortUpload{"metaserver.abort_upload"};

}  // namespace

void FileService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<proto::OpenReadRequest, proto::OpenReadResponse>(
      Method::kOpenRead,
      [this](Context context, proto::OpenReadRequest r) { return open_read(context, std::move(r)); });
  server.handle<proto::AllocateStripeRequest, proto::AllocateStripeResponse>(
      Method::kAllocateStripe, [this](Context context, proto::AllocateStripeRequest r) {
        return allocate_stripe(context, std::move(r));
      });
  server.handle<proto::ReplaceChunkRequest, proto::ReplaceChunkResponse>(
      Method::kReplaceChunk,
      [this](Context context, proto::ReplaceChunkRequest r) { return replace_chunk(context, std::move(r)); });
  server.handle<proto::SealStripeRequest, proto::Empty>(
      Method::kSealStripe,
      [this](Context context, proto::SealStripeRequest r) { return seal_stripe(context, std::move(r)); });
  server.handle<proto::CommitFileRequest, proto::CommitFileResponse>(
      Method::kCommitFile,
      [this](Context context, proto::CommitFileRequest r) { return commit_file(context, std::move(r)); });
  server.handle<proto::AbortUploadRequest, proto::Empty>(
      Method::kAbortUpload,
      [this](Context context, proto::AbortUploadRequest r) { return abort_upload(context, std::move(r)); });
}

Result<proto::OpenReadResponse> FileService::read_extents(const proto::OpenReadRequest& request) const {
  const Reader reader(core_.store);
  proto::OpenReadResponse response;
  KINTSUGI_ASSIGN(*response.mutable_attributes(), core_.names.stat(reader, request.path()));
  const proto::Attributes& attributes = response.attributes();
  if (attributes.type() == proto::Attributes::DIRECTORY) {
    return Status{Code::kIsDirectory, request.path() + " is a directory"};
  }
  if (request.offset() >= attributes.size()) return response;
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
      *response.add_stripes() = core_.describe(id, *stripe, rpc::kOpRead, core_.options.read_capability_life);
      stripes.insert(extent.stripe_id());
    }
    *response.add_extents() = extent;
  }
  return response;
}

asio::awaitable<Result<proto::OpenReadResponse>> FileService::open_read(Context context,
                                                                        proto::OpenReadRequest request) {
  sight::Module module{context, kOpenRead, {double(request.offset())}};
  Result<proto::OpenReadResponse> response = read_extents(request);
  const Status status = co_await core_.finish_read(response);
  if (!module.finish(status).ok()) co_return status;
  module.output(0, response->stripes_size());
  co_return response;
}

void FileService::report_missing(const std::vector<ChunkId>& missing) {
  for (ChunkId chunk : missing)
    core_.events.chunk_lost(chunk, "missing since the write");
}

void FileService::report_unreachable(const proto::SealedStripe& sealed) {
  for (const proto::ChunkPlacement& chunk : sealed.stripe().chunks()) {
    if (chunk.server_id() == 0 || chunk.length() == 0 || !core_.servers.is_dead(ServerId{chunk.server_id()}))
      continue;
    core_.events.chunk_lost({StripeId{sealed.stripe().stripe_id()}, chunk.index()},
                            fmt::format("server {} died before the stripe was sealed", chunk.server_id()));
  }
}

void FileService::note_placed(const proto::SealedStripe& sealed) {
  for (const proto::ChunkPlacement& chunk : sealed.stripe().chunks()) {
    if (chunk.server_id() == 0) continue;
    core_.chunks.set_placed({StripeId{sealed.stripe().stripe_id()}, chunk.index()},
                            ServerId{chunk.server_id()});
  }
}

asio::awaitable<Result<proto::Empty>> FileService::seal_stripe(Context context,
                                                               proto::SealStripeRequest request) {
  sight::Module module{context, kSealStripe, {double(request.sealed().stripe().length())}};
  Transaction transaction(core_.store);
  std::vector<ChunkId> missing;
  const Status sealed =
      core_.uploads.seal(transaction, UploadId{request.upload_id()}, request.sealed(), missing);
  if (sealed.ok() && !transaction.empty()) note_placed(request.sealed());
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), sealed, transaction)));
  report_missing(missing);
  report_unreachable(request.sealed());
  co_return proto::Empty{};
}

std::optional<proto::Attributes> FileService::committed_before(
    const proto::CommitFileRequest& request) const {
  if (request.upload_id() == 0) return std::nullopt;
  const Reader reader(core_.store);
  const Result<proto::Attributes> existing = core_.names.stat(reader, request.path());
  if (!existing) return std::nullopt;
  const proto::StoredInode inode = load_inode(reader, InodeId{existing->inode()});
  if (inode.upload_id() != request.upload_id()) return std::nullopt;
  return *existing;
}

Result<proto::Attributes> FileService::commit(Transaction& transaction,
                                              const proto::CommitFileRequest& request,
                                              std::vector<ChunkId>& missing, FreedStripes& freed) {
  NewFile file;
  file.mode = request.mode();
  file.uid = request.uid();
  file.gid = request.gid();
  file.modified_ns = request.modified_ns();
  file.size = request.size();
  file.upload_id = request.upload_id();
  KINTSUGI_ASSIGN(Uploads::Committed committed, core_.uploads.commit(transaction, request, missing, freed));
  file.extents = std::move(committed.extents);
  file.stored_bytes = committed.stored_bytes;
  file.policy = std::move(committed.policy);
  if (file.policy.empty() && !request.policy().empty()) {
    KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(request.policy()));
    file.policy = policy.name();
  }
  if (file.policy.empty()) {
    KINTSUGI_ASSIGN(const proto::GetPolicyResponse inherited,
                    core_.names.policy_for_new_file(transaction.store(), request.path()));
    file.policy = inherited.policy();
  }
  return core_.names.put_file(transaction, request.path(), std::move(file), request.replace(), freed);
}

asio::awaitable<Result<proto::CommitFileResponse>> FileService::commit_file(
    Context context, proto::CommitFileRequest request) {
  sight::Module module{context, kCommitFile, {double(request.size()), double(request.extents_size())}};
  Transaction transaction(core_.store);
  std::vector<ChunkId> missing;
  FreedStripes freed;
  proto::CommitFileResponse response;
  if (std::optional<proto::Attributes> before = committed_before(request)) {
    KINTSUGI_CO_TRY(module.finish(co_await core_.finish_read()));
    *response.mutable_attributes() = std::move(*before);
    co_return response;
  }
  Result<proto::Attributes> made = commit(transaction, request, missing, freed);
  if (made) {
    for (const proto::SealedStripe& sealed : request.sealed())
      note_placed(sealed);
    core_.uploads.ended(UploadId{request.upload_id()});
  }
  const Status done = made ? Status{} : made.error();
  KINTSUGI_CO_TRY(
      module.finish(co_await core_.finish(module.context(), done, transaction, std::move(freed))));
  report_missing(missing);
  for (const proto::SealedStripe& sealed : request.sealed())
    report_unreachable(sealed);
  *response.mutable_attributes() = std::move(*made);
  co_return response;
}

asio::awaitable<Result<proto::Empty>> FileService::abort_upload(Context context,
                                                                proto::AbortUploadRequest request) {
  sight::Module module{context, kAbortUpload};
  Transaction transaction(core_.store);
  std::vector<ServerId> servers;
  core_.uploads.abort(transaction, UploadId{request.upload_id()}, servers);
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), transaction)));
  for (ServerId server : servers)
    core_.garbage.wake(server);
  co_return proto::Empty{};
}

}  // namespace kintsugi::metaserver
