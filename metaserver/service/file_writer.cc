#include "metaserver/service/file_writer.h"

#include <algorithm>

#include "metaserver/schema/inline_data.h"

namespace kintsugi::metaserver {
namespace {

bool same(const proto::Extent& a, const proto::Extent& b) {
  return a.file_offset() == b.file_offset() && a.length() == b.length() && a.stripe_id() == b.stripe_id() &&
         a.stripe_offset() == b.stripe_offset();
}

}  // namespace

Status FileWriter::write(Transaction& transaction, const FileWrite& wanted, std::vector<StripeId> stripes,
                         WriteEffects& effects, proto::Attributes& attributes) {
  // A file that is gone is no loss to anybody; one that others have got is.
  KINTSUGI_ASSIGN(proto::StoredInode inode, Inodes::find(transaction, wanted.inode));
  KINTSUGI_TRY(clients_.leases.check(wanted.inode, wanted.session));
  if (inode.type() != proto::Attributes::FILE) return {Code::kInvalidArgument, "is no file"};
  const uint64_t size = std::max(inode.size(), wanted.size_at_least);
  if (size > kMaxFileBytes) return {Code::kFileTooLarge, "cannot be so large"};
  proto::FileExtents kept;
  if (!wanted.inline_data.empty()) {
    KINTSUGI_ASSIGN(const uint64_t id, stripe_ids_.take());
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
  const int64_t changed_before_ns = inode.changed_ns();
  if (!wanted.keep_times) note_times(inode, wanted.modified_ns);
  if (wanted.kill_privileges) clear_privileges(transaction, wanted.inode, inode, Caller::root());
  transaction.put_message(keys::inode(wanted.inode), inode);
  attributes = to_attributes(wanted.inode, inode);
  attributes.set_changed_before_ns(changed_before_ns);
  return {};
}

void FileWriter::note_times(proto::StoredInode& inode, int64_t modified_ns) const {
  const int64_t now = names_.inodes.now_ns();
  const int64_t modified = modified_ns != 0 ? modified_ns : now;
  // The file changed when it was written, which its client has told to whoever asked, and not when that comes here. It
  // is never the time before, by which clients see whether what they know is old.
  const bool time_was_set = modified == inode.modified_ns();
  inode.set_changed_ns(std::max(inode.changed_ns() + 1, time_was_set ? 0 : std::min(modified, now)));
  inode.set_modified_ns(modified);
}

void FileWriter::note_layout(const Transaction& transaction, const FileWrite& wanted,
                             const google::protobuf::RepeatedPtrField<proto::Extent>& extents,
                             const std::vector<StripeId>& shrunken) {
  const auto small = std::ranges::count_if(extents, [](const proto::Extent& extent) {
    return extent.stripe_id() != 0 && extent.length() < Compactions::kSmallBytes;
  });
  const bool waste = std::ranges::any_of(shrunken, [&](StripeId id) {
    const auto stripe = transaction.get_message<proto::StoredStripe>(keys::stripe(id));
    return stripe && is_wasteful(*stripe);
  });
  const bool crowds = !wanted.inline_data.empty() && store_.inline_is_crowded(transaction);
  compactions_.wrote(wanted.inode, static_cast<size_t>(small), waste || crowds);
}

Status FileWriter::compact(Transaction& transaction, const proto::WriteExtentsRequest& request,
                           const std::vector<StripeId>& stripes, FreedStripes& freed) {
  const InodeId id{request.inode()};
  if (request.replaced_size() > kMaxExtentsReplaced)
    return {Code::kLimitExceeded,
            fmt::format("at most {} extents are replaced at once", kMaxExtentsReplaced)};
  KINTSUGI_ASSIGN(proto::StoredInode inode, Inodes::find(transaction, id));
  if (inode.type() != proto::Attributes::FILE) return {Code::kInvalidArgument, "is no file"};
  // An extent in no new stripe has to be as it was: a caller that could name other bytes would read another file's.
  // Both are in file order, or else they are refused.
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

}  // namespace kintsugi::metaserver
