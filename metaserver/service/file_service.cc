#include "metaserver/service/file_service.h"

#include "erasure/policy.h"
#include "metaserver/namespace/change_time.h"
#include "metaserver/namespace/changes.h"
#include "metaserver/schema/inline_data.h"
#include "metaserver/service/write_steps.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kOpenRead{"metaserver.open_read", {"offset"}, {"stripes"}};
constexpr sight::Site kSealStripe{"metaserver.seal_stripe", {"bytes"}};
constexpr sight::Site kCommitFile{"metaserver.commit_file", {"bytes", "extents"}};
constexpr sight::Site kWriteExtents{"metaserver.write_extents", {"extents", "more_files"}};
constexpr sight::Site kCopyExtents{"metaserver.copy_extents", {"bytes"}};
constexpr sight::Site kAbortUpload{"metaserver.abort_upload"};
constexpr sight::Site kKeepUpload{"metaserver.keep_upload"};

bool same(const proto::Extent& a, const proto::Extent& b) {
  return a.file_offset() == b.file_offset() && a.length() == b.length() && a.stripe_id() == b.stripe_id() &&
         a.stripe_offset() == b.stripe_offset();
}

}  // namespace

void FileService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&FileService::open_read>(Method::kOpenRead, *this);
  server.handle<&FileService::seal_stripe>(Method::kSealStripe, *this);
  server.handle<&FileService::commit_file>(Method::kCommitFile, *this);
  server.handle<&FileService::write_extents>(Method::kWriteExtents, *this);
  server.handle<&FileService::copy_extents>(Method::kCopyExtents, *this);
  server.handle<&FileService::abort_upload>(Method::kAbortUpload, *this);
  server.handle<&FileService::keep_upload>(Method::kKeepUpload, *this);
}

Status FileService::read_extents(const proto::OpenReadRequest& request,
                                 proto::OpenReadResponse& response) const {
  if (request.inode() == 0)
    KINTSUGI_TRY(state_.places.check_access(Caller::from(request.caller()), request.path(), kMayRead));
  const std::string name = request.inode() != 0 ? fmt::format("inode {}", request.inode()) : request.path();
  const auto place =
      request.inode() != 0 ? state_.places.of(InodeId{request.inode()}) : state_.places.at(request.path());
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
      described = state_.describe(stripe_id, *stripe, rpc::kOpRead, kReadCapabilityLife);
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
    if (request.inode() == 0) all.path(request.path(), request.session());
    if (request.inode() != 0) all.inode(InodeId{request.inode()}, request.session());
  };
  KINTSUGI_CO_TRY(module.finish(co_await state_.settling.until_none(unsettled)));
  const Status read = read_extents(request, response);
  for (const ServerId server : state_.slow.list())
    response.add_slow_servers(server.value);
  module.output(0, response.stripes_size());
  co_return module.finish(co_await state_.finish_read(module.context(), read));
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
  KINTSUGI_TRY(state_.places.check_writable(request.path()));
  const Caller caller = Caller::from(request.caller());
  KINTSUGI_TRY(state_.places.check_parent(caller, request.path(), kMayExecute));
  NewFile file;
  file.mode = request.mode();
  file.uid = request.uid();
  file.gid = request.gid();
  file.modified_ns = request.modified_ns();
  file.size = request.size();
  file.upload_id = request.upload_id();
  const UploadId upload{request.upload_id()};
  KINTSUGI_ASSIGN(const std::vector<StripeId> stripes,
                  state_.uploads.gather(transaction, upload, request.sealed(), missing));
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
                    state_.policies.for_new_file(transaction.store(), request.path()));
    file.policy = inherited.policy();
  }
  KINTSUGI_ASSIGN(proto::Attributes made, state_.names.put_file(transaction, request.path(), std::move(file),
                                                                request.replace(), freed, caller));
  state_.uploads.release(transaction, upload, request.extents(), stripes, freed);
  if (const Status counted = state_.account(transaction); !counted.ok())
    return Status{counted.code(), request.path() + " " + counted.message()};
  return made;
}

Status FileService::write_file(Transaction& transaction, const FileWrite& wanted,
                               std::vector<StripeId> stripes, WriteEffects& effects,
                               proto::Attributes& attributes) {
  KINTSUGI_TRY(state_.leases.check(wanted.inode, wanted.session));
  KINTSUGI_ASSIGN(proto::StoredInode inode, Inodes::find(transaction, wanted.inode));
  if (inode.type() != proto::Attributes::FILE) return {Code::kInvalidArgument, "is no file"};
  const uint64_t size = std::max(inode.size(), wanted.size_at_least);
  if (size > kMaxFileBytes) return {Code::kFileTooLarge, "cannot be so large"};
  proto::FileExtents kept;
  if (!wanted.inline_data.empty()) {
    KINTSUGI_ASSIGN(const uint64_t id, state_.stripe_ids.take());
    *kept.mutable_extents() = wanted.extents;
    KINTSUGI_TRY(keep_inline(transaction, StripeId{id}, wanted.inline_data, wanted.inline_crc,
                             *kept.mutable_extents()));
    stripes = {StripeId{id}};
  }
  const auto& extents = wanted.inline_data.empty() ? wanted.extents : kept.extents();
  KINTSUGI_TRY(Uploads::check_extents(transaction, extents, size, stripes, true));
  ExtentWriter writer(transaction, content_of(wanted.inode, inode), inode.size(), wanted.most);
  for (auto extent = extents.begin(); extent != extents.end() && !writer.is_full(); ++extent)
    writer.put(*extent);
  effects.too_long = writer.is_full();
  if (effects.too_long) return {Code::kLimitExceeded, "has too many extents for one step"};
  writer.finish(inode, effects.freed);
  note_layout(transaction, wanted, extents, writer.shrunken());
  inode.set_size(size);
  if (!wanted.keep_times) {
    const int64_t now = state_.inodes.now_ns();
    const int64_t modified = wanted.modified_ns != 0 ? wanted.modified_ns : now;
    // The file changed when it was written, which its client has told to whoever asked, and not when that comes here. It is never the
    // time before, by which clients see whether what they know is old.
    const bool time_was_set = modified == inode.modified_ns();
    inode.set_changed_ns(std::max(inode.changed_ns() + 1, time_was_set ? 0 : std::min(modified, now)));
    inode.set_modified_ns(modified);
  }
  if (wanted.kill_privileges) clear_privileges(transaction, wanted.inode, inode, Caller::root());
  transaction.put_message(keys::inode(wanted.inode), inode);
  attributes = to_attributes(wanted.inode, inode);
  return {};
}

void FileService::note_layout(const Transaction& transaction, const FileWrite& wanted,
                              const google::protobuf::RepeatedPtrField<proto::Extent>& extents,
                              const std::vector<StripeId>& shrunken) {
  const auto small = std::ranges::count_if(extents, [](const proto::Extent& extent) {
    return extent.stripe_id() != 0 && extent.length() < Compactions::kSmallBytes;
  });
  const bool waste = std::ranges::any_of(shrunken, [&](StripeId id) {
    const auto stripe = transaction.get_message<proto::StoredStripe>(keys::stripe(id));
    return stripe && is_wasteful(*stripe);
  });
  const bool crowds = !wanted.inline_data.empty() && state_.inline_is_crowded(transaction);
  state_.compactions.wrote(wanted.inode, wanted.session, static_cast<size_t>(small), waste || crowds);
}

Status FileService::compact(Transaction& transaction, const proto::WriteExtentsRequest& request,
                            const std::vector<StripeId>& stripes, FreedStripes& freed) {
  const InodeId id{request.inode()};
  if (request.replaced_size() > kMaxExtentsReplaced)
    return {Code::kLimitExceeded,
            fmt::format("at most {} extents are replaced at once", kMaxExtentsReplaced)};
  KINTSUGI_ASSIGN(proto::StoredInode inode, Inodes::find(transaction, id));
  if (inode.type() != proto::Attributes::FILE) return {Code::kInvalidArgument, "is no file"};
  // What is in no new stripe has to be as it was: whoever could name other bytes would read what is not the file's. Both are in file
  // order, or else they are refused.
  std::vector<StripeId> named = stripes;
  auto old = request.replaced().begin();
  for (const proto::Extent& extent : request.extents()) {
    const StripeId stripe{extent.stripe_id()};
    if (std::ranges::binary_search(stripes, stripe)) continue;
    while (old != request.replaced().end() && old->file_offset() < extent.file_offset())
      ++old;
    if (old == request.replaced().end() || !same(*old, extent))
      return {Code::kInvalidArgument, fmt::format("stripe {} is neither new nor where it was", stripe)};
    named.push_back(stripe);
  }
  std::ranges::sort(named);
  KINTSUGI_TRY(Uploads::check_extents(transaction, request.extents(), inode.size(), named, false));
  if (runs_of(request.extents()) != runs_of(request.replaced()))
    return {Code::kInvalidArgument, "what is compacted has to have the bytes that it replaces"};
  const InodeId content = content_of(id, inode);
  if (!has_exactly(transaction.store(), content, request.replaced()))
    return {Code::kConflict, "the file changed meanwhile"};
  ExtentWriter writer(transaction, content, inode.size());
  for (const proto::Extent& extent : request.extents())
    writer.put(extent);
  writer.finish(inode, freed);
  transaction.put_message(keys::inode(id), inode);
  return {};
}

Status FileService::write(Transaction& transaction, const proto::WriteExtentsRequest& request,
                          proto::WriteExtentsResponse& response, WriteEffects& effects) {
  const UploadId upload{request.upload_id()};
  const uint64_t session = request.change().session();
  KINTSUGI_TRY(state_.check_room());
  if (request.more_size() > kMaxFilesOfWriteExtents)
    return {Code::kLimitExceeded,
            fmt::format("at most {} files are written at once", kMaxFilesOfWriteExtents + 1)};
  KINTSUGI_ASSIGN(const uint64_t inline_bytes, inline_bytes_of(request));
  if (inline_bytes > 0) KINTSUGI_TRY(state_.check_inline_room(transaction, inline_bytes));
  KINTSUGI_ASSIGN(const std::vector<StripeId> stripes,
                  state_.uploads.gather(transaction, upload, request.sealed(), effects.missing));
  if (!request.replaced().empty()) {
    KINTSUGI_TRY(compact(transaction, request, stripes, effects.freed));
    state_.uploads.release(transaction, upload, request.extents(), stripes, effects.freed);
    note_change(transaction, request.change(), InodeId{request.inode()});
    return state_.account(transaction);
  }
  google::protobuf::RepeatedPtrField<proto::Extent> all;
  // What the metadata keep themselves is little, and written at once.
  const auto most = [](std::string_view inline_data) {
    return inline_data.empty() ? kMaxExtentsOfAWrite : SIZE_MAX;
  };
  const FileWrite first{InodeId{request.inode()},  session,
                        request.extents(),         request.size_at_least(),
                        request.modified_ns(),     request.keep_times(),
                        request.kill_privileges(), request.inline_data(),
                        request.inline_crc(),      most(request.inline_data())};
  Status status = write_file(transaction, first, stripes, effects, *response.mutable_attributes());
  // Among several a file that is gone is in nobody's way.
  if (!status.ok() && (request.more().empty() || status.code() != Code::kStale)) return status;
  if (status.ok()) all.MergeFrom(request.extents());
  response.set_code(static_cast<int>(status.code()));
  for (const proto::FileExtents& file : request.more()) {
    const FileWrite next{InodeId{file.inode()},  session,
                         file.extents(),         file.size_at_least(),
                         file.modified_ns(),     false,
                         file.kill_privileges(), file.inline_data(),
                         file.inline_crc(),      most(file.inline_data())};
    auto& written = *response.add_more();
    status = write_file(transaction, next, stripes, effects, *written.mutable_attributes());
    if (!status.ok() && status.code() != Code::kStale)
      return status.with_context(fmt::format("inode {}", file.inode()));
    if (status.ok()) all.MergeFrom(file.extents());
    written.set_code(static_cast<int>(status.code()));
    // Each of many files may have few.
    effects.too_long = transaction.size() > kMaxWritesOfAWrite;
    if (effects.too_long) return {Code::kLimitExceeded, "concerns too many extents for one step"};
  }
  state_.uploads.release(transaction, upload, all, stripes, effects.freed);
  note_change(transaction, request.change(), InodeId{request.inode()});
  return state_.account(transaction);
}

asio::awaitable<Status> FileService::seal_brought(Context context,
                                                  const proto::WriteExtentsRequest& request) {
  if (request.sealed().empty()) co_return Status{};
  Transaction transaction(state_.store);
  std::vector<ChunkId> missing;
  Status sealed;
  for (int i = 0; i < request.sealed_size() && sealed.ok(); ++i)
    sealed = state_.uploads.seal(transaction, UploadId{request.upload_id()}, request.sealed(i), missing);
  // Before the commit suspends: a block report that was collected earlier may come in meanwhile.
  for (int i = 0; i < request.sealed_size() && sealed.ok(); ++i)
    note_placed(request.sealed(i));
  KINTSUGI_CO_TRY(co_await state_.finish(context, sealed, transaction));
  report_written(request, missing);
  co_return Status{};
}

asio::awaitable<Status> FileService::write_in_steps(Context context,
                                                    const proto::WriteExtentsRequest& request,
                                                    proto::WriteExtentsResponse& response) {
  const UploadId upload{request.upload_id()};
  KINTSUGI_CO_TRY(co_await seal_brought(context, request));
  for (int i = 0; i < request.more_size(); ++i)
    response.add_more();
  for (WriteSteps steps(request); !steps.done();) {
    const InodeId inode{steps.inode()};
    KINTSUGI_CO_TRY(co_await state_.leases.settle(inode, request.change().session()));
    if (is_over(state_.store, request.change())) break;
    if (state_.runtime.clock.now() >= context.deadline)
      co_return Status{Code::kDeadlineExceeded, "only the first part is written"};
    Transaction transaction(state_.store);
    WriteEffects effects;
    const int file = steps.file();
    const proto::FileExtents step = steps.next(state_.store);
    const FileWrite wanted{inode,
                           request.change().session(),
                           step.extents(),
                           step.size_at_least(),
                           step.modified_ns(),
                           file == 0 && request.keep_times(),
                           step.kill_privileges(),
                           step.inline_data(),
                           step.inline_crc()};
    const auto stripes = state_.uploads.gather(transaction, upload, {}, effects.missing);
    Status status = stripes ? state_.check_room() : stripes.error();
    proto::Attributes attributes;
    if (status.ok()) status = write_file(transaction, wanted, *stripes, effects, attributes);
    // Among several a file that is gone is in nobody's way.
    const Code code = status.code();
    const bool gone = code == Code::kStale && !request.more().empty();
    if (!status.ok() && !gone) co_return co_await state_.finish_read(context, status);
    steps.written(gone);
    if (file == 0) {
      *response.mutable_attributes() = std::move(attributes);
      response.set_code(static_cast<int>(code));
    } else {
      *response.mutable_more(file - 1)->mutable_attributes() = std::move(attributes);
      response.mutable_more(file - 1)->set_code(static_cast<int>(code));
    }
    if (steps.done()) {
      // Those that no extent names are nobody's.
      state_.uploads.release(transaction, upload, {}, *stripes, effects.freed);
      note_change(transaction, request.change(), InodeId{request.inode()});
      state_.uploads.ended(upload);
    }
    transaction.by = request.change().session();
    KINTSUGI_CO_TRY(co_await state_.finish(context, {}, transaction, std::move(effects.freed)));
  }
  co_return Status{};
}

void FileService::report_written(const proto::WriteExtentsRequest& request,
                                 const std::vector<ChunkId>& missing) {
  report_missing(missing);
  for (const proto::SealedStripe& sealed : request.sealed())
    report_unreachable(sealed);
}

asio::awaitable<Status> FileService::write_extents(Context context, const proto::WriteExtentsRequest& request,
                                                   proto::WriteExtentsResponse& response) {
  sight::Module module{context, kWriteExtents, {double(request.extents_size()), double(request.more_size())}};
  const InodeId id{request.inode()};
  std::vector<InodeId> files;
  // A compaction changes nothing that anybody could see, or keeps back.
  if (request.replaced().empty()) files.push_back(id);
  for (const proto::FileExtents& file : request.more())
    files.emplace_back(file.inode());
  Status status = co_await state_.leases.settle(std::move(files), request.change().session());
  if (!status.ok()) co_return module.finish(status);
  if (carried_out(state_.store, request.change())) {
    const Reader reader(state_.store);
    const auto fill = [&](uint64_t number, auto& into) {
      const auto inode = reader.get_message<proto::StoredInode>(keys::inode(InodeId{number}));
      if (inode) *into.mutable_attributes() = to_attributes(InodeId{number}, *inode);
      into.set_code(static_cast<int>(inode ? Code::kOk : Code::kStale));
    };
    fill(request.inode(), response);
    for (const proto::FileExtents& file : request.more())
      fill(file.inode(), *response.add_more());
    // These know by themselves what was carried out before.
    if (request.has_names())
      KINTSUGI_CO_TRY(module.finish(
          co_await names_.write_names(module.context(), request.names(), *response.mutable_names())));
    co_return module.finish(co_await state_.finish_repeated(module.context()));
  }
  Transaction transaction(state_.store);
  WriteEffects effects;
  std::vector<InodeId> granted;
  Status written;
  if (request.has_names() && request.names().session() != request.change().session())
    written = {Code::kInvalidArgument, "the names are another client's"};
  if (written.ok() && request.has_names())
    written =
        names_.write_along(transaction, request.names(), *response.mutable_names(), granted, effects.freed);
  if (written.ok()) written = write(transaction, request, response, effects);
  if (effects.too_long) {
    for (const InodeId lease : granted)
      state_.leases.give_back(request.names().session(), lease);
    response.Clear();
    // These are carried out before, and know by themselves what was when the call is repeated.
    if (request.has_names())
      KINTSUGI_CO_TRY(module.finish(
          co_await names_.write_names(module.context(), request.names(), *response.mutable_names())));
    co_return module.finish(co_await write_in_steps(module.context(), request, response));
  }
  if (written.ok()) {
    for (const proto::SealedStripe& sealed : request.sealed())
      note_placed(sealed);
    state_.uploads.ended(UploadId{request.upload_id()});
  }
  status = co_await state_.finish(module.context(), written.with_context(fmt::format("inode {}", id)),
                                  transaction, std::move(effects.freed));
  if (!status.ok())
    for (const InodeId lease : granted)
      state_.leases.give_back(request.names().session(), lease);
  KINTSUGI_CO_TRY(module.finish(status));
  report_written(request, effects.missing);
  co_return Status{};
}

Status FileService::copy(Transaction& transaction, const proto::CopyExtentsRequest& request,
                         proto::CopyExtentsResponse& response, FreedStripes& freed) {
  const InodeId to_id{request.to()};
  KINTSUGI_TRY(state_.check_room());
  KINTSUGI_ASSIGN(const Place source, state_.places.of(InodeId{request.from()}));
  const InodeId from_id = source.id();
  KINTSUGI_ASSIGN(const proto::StoredInode from, Inodes::find(Transaction(source.view()), from_id));
  KINTSUGI_ASSIGN(proto::StoredInode to, Inodes::find(transaction, to_id));
  if (from.type() != proto::Attributes::FILE || to.type() != proto::Attributes::FILE)
    return {Code::kInvalidArgument, "only contents of files are copied"};
  if (request.from_offset() >= from.size()) return {};
  uint64_t length = std::min(request.length(), from.size() - request.from_offset());
  if (request.to_offset() > kMaxFileBytes || length > kMaxFileBytes - request.to_offset())
    return {Code::kFileTooLarge, "the file cannot be so large"};
  const uint64_t distance = request.from_offset() > request.to_offset()
                                ? request.from_offset() - request.to_offset()
                                : request.to_offset() - request.from_offset();
  if (request.from() == request.to() && distance < length)
    return {Code::kInvalidArgument, "the ranges overlap"};
  std::vector<proto::Extent> extents;
  const uint64_t begin = request.from_offset();
  // The rest is another call's: as many are copied, and are in the way, as one step may change.
  const InodeId to_content = content_of(to_id, to);
  if (length > 0)
    length = end_of_step(transaction.store(), to_content, request.to_offset(), request.to_offset() + length,
                         kMaxExtentsAStep, to.size())
                 .end -
             request.to_offset();
  const auto take = [&](const proto::Extent& extent) {
    if (extent.file_offset() >= begin + length) return false;
    if (extents.size() == kMaxExtentsAStep) {
      length = extent.file_offset() - begin;
      return false;
    }
    extents.push_back(extent);
    return true;
  };
  scan_extents(source.view(), content_of(from_id, from), begin, take, from.size());
  ExtentWriter writer(transaction, to_content, to.size());
  writer.clear(request.to_offset(), request.to_offset() + length);
  for (proto::Extent extent : extents) {
    const uint64_t first = std::max(begin, extent.file_offset());
    const uint64_t end = std::min(begin + length, extent.file_offset() + extent.length());
    extent.set_stripe_offset(extent.stripe_offset() + (first - extent.file_offset()));
    extent.set_length(end - first);
    extent.set_file_offset(request.to_offset() + (first - begin));
    writer.put(extent);
  }
  writer.finish(to, freed);
  to.set_size(std::max(to.size(), request.to_offset() + length));
  to.set_modified_ns(state_.inodes.now_ns());
  note_change(to, state_.inodes.now_ns());
  transaction.put_message(keys::inode(to_id), to);
  response.set_length(length);
  *response.mutable_attributes() = to_attributes(to_id, to);
  return state_.account(transaction);
}

asio::awaitable<Status> FileService::copy_extents(Context context, const proto::CopyExtentsRequest& request,
                                                  proto::CopyExtentsResponse& response) {
  sight::Module module{context, kCopyExtents, {double(request.length())}};
  const std::vector<InodeId> both{InodeId{request.from()}, InodeId{request.to()}};
  KINTSUGI_CO_TRY(module.finish(co_await state_.leases.settle(both, request.change().session())));
  // Others may have written there since, and how much it would be now is another question. What is noted of a copy is its length.
  if (const auto length = carried_out(state_.store, request.change())) {
    const auto to = Reader(state_.store).get_message<proto::StoredInode>(keys::inode(InodeId{request.to()}));
    if (to) *response.mutable_attributes() = to_attributes(InodeId{request.to()}, *to);
    response.set_length(length->value);
    co_return module.finish(co_await state_.finish_repeated(module.context()));
  }
  Transaction transaction(state_.store);
  FreedStripes freed;
  const Status copied = copy(transaction, request, response, freed);
  if (copied.ok()) note_change(transaction, request.change(), InodeId{response.length()});
  co_return module.finish(co_await state_.finish(module.context(), copied, transaction, std::move(freed)));
}

asio::awaitable<Status> FileService::commit_file(Context context, const proto::CommitFileRequest& request,
                                                 proto::CommitFileResponse& response) {
  sight::Module module{context, kCommitFile, {double(request.size()), double(request.extents_size())}};
  KINTSUGI_CO_TRY(module.finish(co_await state_.settling.directories_of(request.path())));
  if (std::optional<proto::Attributes> before = committed_before(request)) {
    *response.mutable_attributes() = std::move(*before);
    co_return module.finish(co_await state_.finish_read(module.context()));
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
  co_return module.finish(co_await state_.finish_read(module.context(), kept));
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
