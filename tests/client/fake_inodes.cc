// The fake metaserver's files by inode.
#include <algorithm>

#include "tests/client/fake_cluster.h"

namespace kintsugi::client {

uint64_t FakeMetaServer::add_inode() {
  const uint64_t inode = 1'000'000 + next_id_++;
  File& file = inodes[inode];
  file.attributes.set_inode(inode);
  file.attributes.set_mode(0644);
  file.attributes.set_policy(policy);
  file.attributes.set_changed_ns(static_cast<int64_t>(next_id_++));
  return inode;
}

bool FakeMetaServer::is_repeat(const proto::Change& change) {
  // The rule that sessions have to keep: number n begins only once n - 64 has been answered.
  for (uint64_t before = 1; before + 64 <= change.number(); ++before)
    KINTSUGI_ASSERT(changes.contains({change.session(), before}));
  return changes.contains({change.session(), change.number()});
}

Status FakeMetaServer::changed(const proto::Change& change) {
  changes.insert({change.session(), change.number()});
  if (lose_answers == 0) return {};
  --lose_answers;
  return {Code::kUnavailable, "the answer is lost"};
}

Status FakeMetaServer::get_inode(const proto::GetInodeRequest& request, proto::InodeResponse& response) {
  const auto found = inodes.find(request.inode());
  if (found == inodes.end()) return {Code::kStale, "no such inode"};
  *response.mutable_attributes() = found->second.attributes;
  response.set_lease(grants_leases && request.lease());
  return {};
}

void FakeMetaServer::put_extent(File& file, proto::Extent extent) {
  const uint64_t begin = extent.file_offset(), end = begin + extent.length();
  std::vector<proto::Extent> kept;
  for (const proto::Extent& old : file.extents) {
    const uint64_t old_end = old.file_offset() + old.length();
    if (old.file_offset() < begin) {
      kept.push_back(old);
      kept.back().set_length(std::min(old_end, begin) - old.file_offset());
    }
    if (old_end > end) {
      const uint64_t from = std::max(old.file_offset(), end);
      kept.push_back(old);
      kept.back().set_file_offset(from);
      kept.back().set_length(old_end - from);
      kept.back().set_stripe_offset(old.stripe_offset() + (from - old.file_offset()));
    }
  }
  if (extent.stripe_id() != 0) kept.push_back(extent);
  std::ranges::sort(kept, {}, [](const proto::Extent& one) { return one.file_offset(); });
  file.extents = std::move(kept);
}

Status FakeMetaServer::set_attributes(const proto::SetAttributesRequest& request,
                                      proto::InodeResponse& response) {
  const auto found = inodes.find(request.inode());
  if (found == inodes.end()) return {Code::kStale, "no such inode"};
  proto::Attributes& attributes = found->second.attributes;
  Status status;
  if (!is_repeat(request.change())) {
    if (request.has_size()) {
      proto::Extent beyond;
      beyond.set_file_offset(request.size());
      beyond.set_length(UINT64_MAX - request.size());
      put_extent(found->second, beyond);
      attributes.set_size(request.size());
    }
    if (request.has_mode()) attributes.set_mode(request.mode());
    if (request.has_modified_ns()) attributes.set_modified_ns(request.modified_ns());
    attributes.set_changed_ns(static_cast<int64_t>(next_id_++));
    status = changed(request.change());
  }
  *response.mutable_attributes() = attributes;
  return status;
}

template <class Files>
Status FakeMetaServer::write_file(Files file, proto::Attributes& into) {
  if (!file.inline_data().empty()) {
    if (!keeps_inline) {
      ++inline_refused;
      return {Code::kLimitExceeded, "keeps no bytes itself"};
    }
    proto::Stripe& kept = stripes[next_id_];
    kept.set_stripe_id(next_id_++);
    kept.set_length(file.inline_data().size());
    kept.set_inline_data(file.inline_data());
    kept.set_inline_crc(file.inline_crc());
    uint64_t at = 0;
    for (proto::Extent& extent : *file.mutable_extents()) {
      extent.set_stripe_id(kept.stripe_id());
      extent.set_stripe_offset(at);
      at += extent.length();
    }
  }
  const auto found = inodes.find(file.inode());
  if (found == inodes.end()) return {Code::kStale, "no such inode"};
  proto::Attributes& attributes = found->second.attributes;
  uint64_t end = 0;
  for (const proto::Extent& extent : file.extents()) {
    if (extent.length() == 0 || extent.file_offset() < end) return {Code::kInvalidArgument, "out of order"};
    end = extent.file_offset() + extent.length();
    if (extent.stripe_id() != 0 &&
        (!stripes.contains(extent.stripe_id()) ||
         extent.stripe_offset() + extent.length() > stripes[extent.stripe_id()].length()))
      return {Code::kInvalidArgument, "extents make no sense"};
    put_extent(found->second, extent);
  }
  attributes.set_size(std::max(attributes.size(), file.size_at_least()));
  attributes.set_modified_ns(file.modified_ns());
  if (file.kill_privileges()) attributes.set_mode(attributes.mode() & ~06000u);
  const int64_t changed_before_ns = attributes.changed_ns();
  attributes.set_changed_ns(static_cast<int64_t>(next_id_++));
  into = attributes;
  into.set_changed_before_ns(changed_before_ns);
  return {};
}

Status FakeMetaServer::write_names(const proto::WriteNamesRequest& request,
                                   proto::WriteNamesResponse& response) {
  if (!refuses_names.ok()) return refuses_names;
  for (int i = 0; i < request.changes_size(); ++i)
    response.add_changes();
  return {};
}

Status FakeMetaServer::write_extents(const proto::WriteExtentsRequest& request,
                                     proto::WriteExtentsResponse& response) {
  if (!inodes.contains(request.inode()) && request.more().empty()) return {Code::kStale, "no such inode"};
  if (!refuses_writes.ok()) return refuses_writes;
  const auto told = [](const Status& status) { return static_cast<int>(status.code()); };
  if (is_repeat(request.change())) {
    *response.mutable_attributes() = inodes[request.inode()].attributes;
    for (const proto::FileExtents& file : request.more())
      *response.add_more()->mutable_attributes() = inodes[file.inode()].attributes;
    return {};
  }
  for (const proto::SealedStripe& sealed : request.sealed())
    KINTSUGI_TRY(seal(sealed));
  Status written = write_file(request, *response.mutable_attributes());
  if (written.code() == Code::kLimitExceeded)
    changes.insert({request.change().session(), request.change().number()});
  if (!written.ok() && written.code() != Code::kStale) return written;
  response.set_code(told(written));
  for (const proto::FileExtents& file : request.more()) {
    auto& one = *response.add_more();
    written = write_file(file, *one.mutable_attributes());
    if (!written.ok() && written.code() != Code::kStale) return written;
    one.set_code(told(written));
  }
  extent_writes.push_back(request);
  return changed(request.change());
}

Status FakeMetaServer::copy_extents(const proto::CopyExtentsRequest& request,
                                    proto::CopyExtentsResponse& response) {
  if (!inodes.contains(request.from()) || !inodes.contains(request.to()))
    return {Code::kStale, "no such inode"};
  const File from = inodes[request.from()];
  File& to = inodes[request.to()];
  const uint64_t end = std::min(request.from_offset() + request.length(), from.attributes.size());
  if (end <= request.from_offset()) return {};
  const uint64_t length = end - request.from_offset();
  response.set_length(length);
  if (!is_repeat(request.change())) {
    proto::Extent hole;
    hole.set_file_offset(request.to_offset());
    hole.set_length(length);
    put_extent(to, hole);
    for (proto::Extent extent : from.extents) {
      const uint64_t first = std::max(extent.file_offset(), request.from_offset());
      const uint64_t last = std::min(extent.file_offset() + extent.length(), end);
      if (first >= last) continue;
      extent.set_stripe_offset(extent.stripe_offset() + (first - extent.file_offset()));
      extent.set_file_offset(request.to_offset() + (first - request.from_offset()));
      extent.set_length(last - first);
      put_extent(to, extent);
    }
    to.attributes.set_size(std::max(to.attributes.size(), request.to_offset() + length));
    to.attributes.set_changed_ns(static_cast<int64_t>(next_id_++));
    KINTSUGI_TRY(changed(request.change()));
  }
  *response.mutable_attributes() = to.attributes;
  return {};
}

Status FakeMetaServer::keep_session(const proto::KeepSessionRequest& request,
                                    proto::KeepSessionResponse& response) {
  if (request.ends()) {
    sessions.erase(request.session());
    return {};
  }
  const bool known = sessions.contains(request.session());
  std::set<uint64_t>& held = sessions[request.session()];
  if (request.all() && request.generation() == request.number()) held.clear();  // the first page
  held.insert(request.hold().begin(), request.hold().end());
  for (const uint64_t inode : request.release())
    held.erase(inode);
  given_back.insert(request.give_back().begin(), request.give_back().end());
  response.set_tell_all(!known && !request.all());
  response.mutable_slow_servers()->Add(slow.begin(), slow.end());
  response.mutable_lost()->Add(lost_leases.begin(), lost_leases.end());
  return {};
}

}  // namespace kintsugi::client
