#include "metaserver/service/file_service.h"

#include "erasure/policy.h"
#include "metaserver/schema/extents.h"
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
  if (request.inode() == 0)
    KINTSUGI_TRY(names_.places.check_access(Caller::from(request.caller()), request.path(), kMayRead));
  const std::string name = request.inode() != 0 ? fmt::format("inode {}", request.inode()) : request.path();
  const auto place =
      request.inode() != 0 ? names_.places.of(InodeId{request.inode()}) : names_.places.at(request.path());
  if (!place && request.inode() == 0) return place.error();
  if (!place) return {place.error().code(), name + " " + place.error().message()};
  const Reader reader(place->view());
  const auto inode = Inodes::find(Transaction(place->view()), place->id());
  if (!inode) return {inode.error().code(), name + " " + inode.error().message()};
  *response.mutable_attributes() = to_attributes(place->id(), *inode);
  response.mutable_attributes()->set_inode(place->shown(place->id().value));
  const proto::Attributes& attributes = response.attributes();
  if (attributes.type() == proto::Attributes::DIRECTORY)
    return {Code::kIsDirectory, name + " is a directory"};
  if (attributes.type() != proto::Attributes::FILE)
    return {Code::kInvalidArgument, name + " is no file, and can be read through a mount only"};
  if (request.offset() >= attributes.size()) return {};
  const uint64_t left = attributes.size() - request.offset();
  const uint64_t end = request.offset() + (request.length() == 0 ? left : std::min(left, request.length()));
  std::set<uint64_t> stripes;
  uint64_t inline_bytes = 0;
  const auto describe = [&](const proto::Extent& extent) {
    if (extent.file_offset() >= end) return false;
    const bool new_stripe = !stripes.contains(extent.stripe_id());
    if ((new_stripe && response.stripes_size() == kMaxStripesOfOpenRead) ||
        response.extents_size() == kMaxExtentsOfOpenRead || inline_bytes >= kMaxInlineBytesOfOpenRead) {
      response.set_more(true);
      return false;
    }
    if (new_stripe) {
      const StripeId stripe_id{extent.stripe_id()};
      const auto stripe = load_stripe(reader, stripe_id);
      KINTSUGI_ASSERT(stripe);
      proto::Stripe& described = *response.add_stripes();
      described = describer_.describe(stripe_id, *stripe, rpc::kOpRead, kReadCapabilityLife);
      described.set_inline_data(stripe->inline_data());
      described.set_inline_crc(stripe->inline_crc());
      inline_bytes += stripe->inline_data().size();
      stripes.insert(extent.stripe_id());
    }
    *response.add_extents() = extent;
    return true;
  };
  scan_extents(reader, content_of(place->id(), *inode), request.offset(), describe, inode->size());
  return {};
}

asio::awaitable<Status> FileService::open_read(Context context, const proto::OpenReadRequest& request,
                                               proto::OpenReadResponse& response) {
  sight::Module module{context, kOpenRead, {double(request.offset())}};
  const auto unsettled = [&](Unsettled& all) {
    if (request.as_stored()) return;
    if (request.inode() == 0) all.path(request.path(), request.session());
    if (request.inode() != 0) all.inode(InodeId{request.inode()}, request.session());
  };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  const Status read = read_extents(request, response);
  for (const ServerId server : slow_.list())
    response.add_slow_servers(server.value);
  module.output(0, response.stripes_size());
  co_return module.finish(co_await store_.finish_read(module.context(), read));
}

asio::awaitable<Status> FileService::seal_stripe(Context context, const proto::SealStripeRequest& request,
                                                 Empty&) {
  sight::Module module{context, kSealStripe, {double(request.sealed().stripe().length())}};
  Transaction transaction(store_.kv);
  std::vector<ChunkId> missing;
  const Status sealed =
      writes_.uploads.seal(transaction, UploadId{request.upload_id()}, request.sealed(), missing);
  if (sealed.ok() && !transaction.empty()) writes_.written.note_placed(request.sealed());
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), sealed, transaction)));
  writes_.written.report(request.sealed(), missing);
  co_return Status{};
}

std::optional<proto::Attributes> FileService::committed_before(
    const proto::CommitFileRequest& request) const {
  if (request.upload_id() == 0) return std::nullopt;
  const Reader reader(store_.kv);
  const Result<proto::Attributes> existing = names_.tree.stat(reader, request.path());
  if (!existing) return std::nullopt;
  const proto::StoredInode inode = load_inode(reader, InodeId{existing->inode()});
  if (inode.upload_id() != request.upload_id()) return std::nullopt;
  return *existing;
}

Result<proto::Attributes> FileService::commit(Transaction& transaction,
                                              const proto::CommitFileRequest& request,
                                              std::vector<ChunkId>& missing, FreedStripes& freed) {
  KINTSUGI_TRY(store_.room.check());
  KINTSUGI_TRY(names_.places.check_writable(request.path()));
  const Caller caller = Caller::from(request.caller());
  KINTSUGI_TRY(names_.places.check_parent(caller, request.path(), kMayExecute));
  NewFile file;
  file.mode = request.mode();
  file.uid = request.uid();
  file.gid = request.gid();
  file.modified_ns = request.modified_ns();
  file.size = request.size();
  file.upload_id = request.upload_id();
  const UploadId upload{request.upload_id()};
  KINTSUGI_ASSIGN(const std::vector<StripeId> stripes,
                  writes_.uploads.gather(transaction, upload, request.sealed(), missing));
  KINTSUGI_TRY(Uploads::check_extents(transaction, request.extents(), request.size(), stripes, false));
  file.extents = request.extents();
  if (!request.extents().empty()) {
    const StripeId first{request.extents(0).stripe_id()};
    file.policy = transaction.get_message<proto::StoredStripe>(keys::stripe(first))->policy();
  }
  if (file.policy.empty() && !request.policy().empty()) {
    KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(request.policy()));
    file.policy = policy.name();
  }
  if (file.policy.empty()) {
    KINTSUGI_ASSIGN(const proto::GetPolicyResponse inherited,
                    names_.policies.for_new_file(transaction.store(), request.path()));
    file.policy = inherited.policy();
  }
  KINTSUGI_ASSIGN(proto::Attributes made, names_.tree.put_file(transaction, request.path(), std::move(file),
                                                               request.replace(), freed, caller));
  writes_.uploads.release(transaction, upload, request.extents(), stripes, freed);
  if (const Status counted = names_.quotas.account(transaction); !counted.ok())
    return Status{counted.code(), request.path() + " " + counted.message()};
  return made;
}

asio::awaitable<Status> FileService::commit_file(Context context, const proto::CommitFileRequest& request,
                                                 proto::CommitFileResponse& response) {
  sight::Module module{context, kCommitFile, {double(request.size()), double(request.extents_size())}};
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.directories_of(module.context(), request.path())));
  if (std::optional<proto::Attributes> before = committed_before(request)) {
    *response.mutable_attributes() = std::move(*before);
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  }
  Transaction transaction(store_.kv);
  std::vector<ChunkId> missing;
  FreedStripes freed;
  const Status made = extract(commit(transaction, request, missing, freed), *response.mutable_attributes());
  if (made.ok()) {
    writes_.written.note_placed(request.sealed());
    writes_.uploads.ended(UploadId{request.upload_id()});
  }
  KINTSUGI_CO_TRY(
      module.finish(co_await store_.finish(module.context(), made, transaction, std::move(freed))));
  writes_.written.report(request.sealed(), missing);
  co_return Status{};
}

asio::awaitable<Status> FileService::keep_upload(Context context, const proto::KeepUploadRequest& request,
                                                 Empty&) {
  sight::Module module{context, kKeepUpload};
  const UploadId upload{request.upload_id()};
  const Status kept =
      upload ? writes_.uploads.use(upload) : Status{Code::kInvalidArgument, "the request has no upload id"};
  co_return module.finish(co_await store_.finish_read(module.context(), kept));
}

asio::awaitable<Status> FileService::abort_upload(Context context, const proto::AbortUploadRequest& request,
                                                  Empty&) {
  sight::Module module{context, kAbortUpload};
  Transaction transaction(store_.kv);
  std::vector<ServerId> servers;
  writes_.uploads.abort(transaction, UploadId{request.upload_id()}, servers);
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), {}, transaction)));
  for (ServerId server : servers)
    garbage_.wake(server);
  co_return Status{};
}

}  // namespace kintsugi::metaserver
