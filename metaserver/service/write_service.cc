#include "metaserver/service/write_service.h"

#include <algorithm>
#include <set>

#include "metaserver/namespace/change_time.h"
#include "metaserver/namespace/changes.h"
#include "metaserver/schema/inline_data.h"
#include "metaserver/service/write_steps.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kWriteExtents{"metaserver.write_extents", {"extents", "more_files"}};
constexpr sight::Site kCopyExtents{"metaserver.copy_extents", {"bytes"}};

/// The file is gone, or was given to others: what is written to other files by the same call is not concerned.
bool concerns_one_file(Code code) {
  return code == Code::kStale || code == Code::kLeaseLost;
}

/// A transaction changes the extents of a file once only (ExtentWriter).
bool names_each_file_once(const proto::WriteExtentsRequest& request) {
  std::set<uint64_t> inodes{request.inode()};
  return std::ranges::all_of(
      request.more(), [&](const proto::FileExtents& file) { return inodes.insert(file.inode()).second; });
}

}  // namespace

void WriteService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&WriteService::write_extents>(Method::kWriteExtents, *this);
  server.handle<&WriteService::copy_extents>(Method::kCopyExtents, *this);
}

Status WriteService::write(Transaction& transaction, const proto::WriteExtentsRequest& request,
                           proto::WriteExtentsResponse& response, WriteEffects& effects) {
  const UploadId upload{request.upload_id()};
  const uint64_t session = request.change().session();
  KINTSUGI_TRY(store_.room.check());
  if (request.more_size() > kMaxFilesOfWriteExtents)
    return {Code::kLimitExceeded,
            fmt::format("at most {} files are written at once", kMaxFilesOfWriteExtents + 1)};
  KINTSUGI_ASSIGN(const uint64_t inline_bytes, inline_bytes_of(request));
  if (inline_bytes > 0) KINTSUGI_TRY(store_.check_inline_room(transaction, inline_bytes));
  KINTSUGI_ASSIGN(const std::vector<StripeId> stripes,
                  writes_.uploads.gather(transaction, upload, request.sealed(), effects.missing));
  if (!request.replaced().empty()) {
    KINTSUGI_TRY(writer_.compact(transaction, request, stripes, effects.freed));
    writes_.uploads.release(transaction, upload, request.extents(), stripes, effects.freed);
    note_change(transaction, request.change(), InodeId{request.inode()});
    return names_.quotas.account(transaction);
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
  Status status = writer_.write(transaction, first, stripes, effects, *response.mutable_attributes());
  // Among several a file that is gone, or was given to others, is in nobody's way.
  if (!status.ok() && (request.more().empty() || !concerns_one_file(status.code()))) return status;
  if (status.ok()) all.MergeFrom(request.extents());
  response.set_code(static_cast<int>(status.code()));
  for (const proto::FileExtents& file : request.more()) {
    const FileWrite next{InodeId{file.inode()},  session,
                         file.extents(),         file.size_at_least(),
                         file.modified_ns(),     false,
                         file.kill_privileges(), file.inline_data(),
                         file.inline_crc(),      most(file.inline_data())};
    auto& written = *response.add_more();
    status = writer_.write(transaction, next, stripes, effects, *written.mutable_attributes());
    if (!status.ok() && !concerns_one_file(status.code()))
      return status.with_context(fmt::format("inode {}", file.inode()));
    if (status.ok()) all.MergeFrom(file.extents());
    written.set_code(static_cast<int>(status.code()));
    // Each of many files may have few.
    effects.too_long = transaction.size() > kMaxWritesOfAWrite;
    if (effects.too_long) return {Code::kLimitExceeded, "concerns too many extents for one step"};
  }
  writes_.uploads.release(transaction, upload, all, stripes, effects.freed);
  note_change(transaction, request.change(), InodeId{request.inode()});
  return names_.quotas.account(transaction);
}

asio::awaitable<Status> WriteService::seal_brought(Context context,
                                                   const proto::WriteExtentsRequest& request) {
  if (request.sealed().empty()) co_return Status{};
  Transaction transaction(store_.kv);
  std::vector<ChunkId> missing;
  Status sealed;
  for (int i = 0; i < request.sealed_size() && sealed.ok(); ++i)
    sealed = writes_.uploads.seal(transaction, UploadId{request.upload_id()}, request.sealed(i), missing);
  if (sealed.ok()) writes_.written.note_placed(request.sealed());
  KINTSUGI_CO_TRY(co_await store_.finish(context, sealed, transaction));
  writes_.written.report(request.sealed(), missing);
  co_return Status{};
}

asio::awaitable<Status> WriteService::write_in_steps(Context context,
                                                     const proto::WriteExtentsRequest& request,
                                                     proto::WriteExtentsResponse& response) {
  const UploadId upload{request.upload_id()};
  KINTSUGI_CO_TRY(co_await seal_brought(context, request));
  for (int i = 0; i < request.more_size(); ++i)
    response.add_more();
  for (WriteSteps steps(request); !steps.done();) {
    const InodeId inode{steps.inode()};
    KINTSUGI_CO_TRY(co_await clients_.leases.settle(context, inode, request.change().session()));
    if (is_over(store_.kv, request.change())) {
      // The call that this one repeats has carried it out meanwhile, and has left the files as they are now.
      response.Clear();
      co_return co_await answer_repeated(context, request, response);
    }
    if (store_.runtime.clock.now() >= context.deadline)
      co_return Status{Code::kDeadlineExceeded, "the write is not complete yet: try again"};
    Transaction transaction(store_.kv);
    WriteEffects effects;
    const int file = steps.file();
    const proto::FileExtents step = steps.next(store_.kv);
    const FileWrite wanted{inode,
                           request.change().session(),
                           step.extents(),
                           step.size_at_least(),
                           step.modified_ns(),
                           file == 0 && request.keep_times(),
                           step.kill_privileges(),
                           step.inline_data(),
                           step.inline_crc()};
    const auto stripes = writes_.uploads.gather(transaction, upload, {}, effects.missing);
    Status status = stripes ? store_.room.check() : stripes.error();
    proto::Attributes attributes;
    if (status.ok()) status = writer_.write(transaction, wanted, *stripes, effects, attributes);
    // Among several a file that is gone, or was given to others, is in nobody's way.
    const Code code = status.code();
    const bool gone = concerns_one_file(code) && !request.more().empty();
    if (!status.ok() && !gone) co_return co_await store_.finish_read(context, status);
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
      writes_.uploads.release(transaction, upload, {}, *stripes, effects.freed);
      note_change(transaction, request.change(), InodeId{request.inode()});
      // The upload of a write that is refused at last continues, so that its stripes are freed with it.
      status = names_.quotas.account(transaction);
      if (!status.ok()) co_return co_await store_.finish_read(context, status);
      writes_.uploads.ended(upload);
    }
    transaction.by = request.change().session();
    KINTSUGI_CO_TRY(co_await store_.finish(context, {}, transaction, std::move(effects.freed)));
  }
  co_return Status{};
}

asio::awaitable<Status> WriteService::answer_repeated(Context context,
                                                      const proto::WriteExtentsRequest& request,
                                                      proto::WriteExtentsResponse& response) {
  const Reader reader(store_.kv);
  const bool several = !request.more().empty();
  const auto fill = [&](uint64_t number, auto& into) -> Status {
    const InodeId id{number};
    const auto inode = reader.get_message<proto::StoredInode>(keys::inode(id));
    // Among several it may have been refused. Where it was not, its client hears of a loss that was none.
    const Status held = several ? clients_.leases.check(id, request.change().session()) : Status{};
    if (!held.ok() && !concerns_one_file(held.code())) return held;
    if (inode) *into.mutable_attributes() = to_attributes(id, *inode);
    into.set_code(static_cast<int>(inode ? held.code() : Code::kStale));
    return {};
  };
  KINTSUGI_CO_TRY(fill(request.inode(), response));
  for (const proto::FileExtents& file : request.more())
    KINTSUGI_CO_TRY(fill(file.inode(), *response.add_more()));
  // These know by themselves what was carried out before.
  if (request.has_names())
    KINTSUGI_CO_TRY(co_await names_service_.write_names(context, request.names(), *response.mutable_names()));
  co_return co_await store_.finish_repeated(context);
}

asio::awaitable<Status> WriteService::write_extents(Context context,
                                                    const proto::WriteExtentsRequest& request,
                                                    proto::WriteExtentsResponse& response) {
  sight::Module module{context, kWriteExtents, {double(request.extents_size()), double(request.more_size())}};
  const InodeId id{request.inode()};
  std::vector<InodeId> files;
  // A compaction changes nothing that anybody could see, or keeps back.
  if (request.replaced().empty()) files.push_back(id);
  for (const proto::FileExtents& file : request.more())
    files.emplace_back(file.inode());
  Status status =
      co_await clients_.leases.settle(module.context(), std::move(files), request.change().session());
  if (!status.ok()) co_return module.finish(status);
  if (carried_out(store_.kv, request.change()))
    co_return module.finish(co_await answer_repeated(module.context(), request, response));
  Transaction transaction(store_.kv);
  WriteEffects effects;
  std::vector<InodeId> granted;
  Status written;
  if (request.has_names() && request.names().session() != request.change().session())
    written = {Code::kInvalidArgument, "the names are another client's"};
  if (written.ok() && !names_each_file_once(request))
    written = {Code::kInvalidArgument, "a file is named twice"};
  if (written.ok() && request.has_names())
    written = names_service_.write_along(transaction, request.names(), *response.mutable_names(), granted,
                                         effects.freed);
  if (written.ok()) written = write(transaction, request, response, effects);
  if (effects.too_long) {
    for (const InodeId lease : granted)
      clients_.leases.give_back(request.names().session(), lease);
    response.Clear();
    // These are carried out before, and know by themselves what was when the call is repeated.
    if (request.has_names())
      KINTSUGI_CO_TRY(module.finish(
          co_await names_service_.write_names(module.context(), request.names(), *response.mutable_names())));
    co_return module.finish(co_await write_in_steps(module.context(), request, response));
  }
  if (written.ok()) {
    writes_.written.note_placed(request.sealed());
    writes_.uploads.ended(UploadId{request.upload_id()});
  }
  status = co_await store_.finish(module.context(), written.with_context(fmt::format("inode {}", id)),
                                  transaction, std::move(effects.freed));
  if (!status.ok())
    for (const InodeId lease : granted)
      clients_.leases.give_back(request.names().session(), lease);
  KINTSUGI_CO_TRY(module.finish(status));
  writes_.written.report(request.sealed(), effects.missing);
  co_return Status{};
}

Status WriteService::copy(Transaction& transaction, const proto::CopyExtentsRequest& request,
                          proto::CopyExtentsResponse& response, FreedStripes& freed) {
  const InodeId to_id{request.to()};
  KINTSUGI_TRY(store_.room.check());
  KINTSUGI_TRY(clients_.leases.check(to_id, request.change().session()));
  KINTSUGI_ASSIGN(const Place source, names_.places.of(InodeId{request.from()}));
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
  to.set_modified_ns(names_.inodes.now_ns());
  note_change(to, names_.inodes.now_ns());
  transaction.put_message(keys::inode(to_id), to);
  response.set_length(length);
  *response.mutable_attributes() = to_attributes(to_id, to);
  return names_.quotas.account(transaction);
}

asio::awaitable<Status> WriteService::copy_extents(Context context, const proto::CopyExtentsRequest& request,
                                                   proto::CopyExtentsResponse& response) {
  sight::Module module{context, kCopyExtents, {double(request.length())}};
  const std::vector<InodeId> both{InodeId{request.from()}, InodeId{request.to()}};
  KINTSUGI_CO_TRY(
      module.finish(co_await clients_.leases.settle(module.context(), both, request.change().session())));
  // Others may have written there since, and how much it would be now is another question. What is noted of a copy is its length.
  if (const auto length = carried_out(store_.kv, request.change())) {
    const auto to = Reader(store_.kv).get_message<proto::StoredInode>(keys::inode(InodeId{request.to()}));
    if (to) *response.mutable_attributes() = to_attributes(InodeId{request.to()}, *to);
    response.set_length(length->value);
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  }
  Transaction transaction(store_.kv);
  FreedStripes freed;
  const Status copied = copy(transaction, request, response, freed);
  if (copied.ok()) note_change(transaction, request.change(), InodeId{response.length()});
  co_return module.finish(co_await store_.finish(module.context(), copied, transaction, std::move(freed)));
}

}  // namespace kintsugi::metaserver
