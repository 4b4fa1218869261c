#include "metaserver/schema/keys.h"

#include "common/base/assert.h"

namespace kintsugi::metaserver::keys {
namespace {

std::string make(Kind kind, size_t extra_bytes = 8) {
  std::string key;
  key.reserve(1 + extra_bytes);
  key.push_back(static_cast<char>(kind));
  return key;
}

void append(std::string& key, uint64_t id) {
  for (int shift = 56; shift >= 0; shift -= 8)
    key.push_back(static_cast<char>(id >> shift));
}

std::string with_id(Kind kind, uint64_t id) {
  std::string key = make(kind);
  append(key, id);
  return key;
}

std::string with_chunk(Kind kind, ServerId server, ChunkId chunk) {
  KINTSUGI_ASSERT(chunk.index <= kMaxIndex);
  std::string key = make(kind, 17);
  append(key, server.value);
  append(key, chunk.stripe.value);
  key.push_back(static_cast<char>(chunk.index));
  return key;
}

uint64_t id_at(std::string_view key, size_t at) {
  KINTSUGI_ASSERT(key.size() >= at + 8);
  uint64_t id = 0;
  for (size_t i = 0; i < 8; ++i)
    id = id << 8 | static_cast<uint8_t>(key[at + i]);
  return id;
}

/// The least key greater than every key that starts with `prefix`.
std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xff)
    prefix.pop_back();
  KINTSUGI_ASSERT(!prefix.empty());
  prefix.back() = static_cast<char>(static_cast<uint8_t>(prefix.back()) + 1);
  return prefix;
}

}  // namespace

std::string cluster() {
  return make(Kind::kCluster);
}
std::string totals() {
  return make(Kind::kTotals);
}
std::string counter(std::string_view name) {
  return make(Kind::kCounter, name.size()).append(name);
}
std::string policy(std::string_view name) {
  return make(Kind::kPolicy, name.size()).append(name);
}

std::string doubt() {
  return make(Kind::kDoubt);
}
std::string epoch(uint64_t number) {
  return with_id(Kind::kEpoch, number);
}
std::string abandoned(uint64_t epoch) {
  return with_id(Kind::kAbandoned, epoch);
}

std::string inode(InodeId id) {
  return with_id(Kind::kInode, id.value);
}
std::string extent(InodeId content, uint64_t end) {
  std::string key = make(Kind::kExtent, 16);
  append(key, content.value);
  append(key, end);
  return key;
}
std::string xattr(InodeId id, std::string_view name) {
  std::string key = make(Kind::kXattr, 8 + name.size());
  append(key, id.value);
  return key.append(name);
}
std::string change(uint64_t session, uint64_t slot) {
  std::string key = make(Kind::kChange, 16);
  append(key, session);
  append(key, slot);
  return key;
}
std::string request(uint64_t slot) {
  return with_id(Kind::kRequest, slot);
}
std::string orphan(InodeId id) {
  return with_id(Kind::kOrphan, id.value);
}
std::string stripe(StripeId id) {
  return with_id(Kind::kStripe, id.value);
}
std::string server(ServerId id) {
  return with_id(Kind::kServer, id.value);
}
std::string upload(UploadId id) {
  return with_id(Kind::kUpload, id.value);
}

std::string entry(InodeId parent, std::string_view name) {
  std::string key = make(Kind::kEntry, 8 + name.size());
  append(key, parent.value);
  return key.append(name);
}

std::string server_chunk(ServerId server, ChunkId chunk) {
  return with_chunk(Kind::kServerChunk, server, chunk);
}
std::string garbage(ServerId server, ChunkId chunk) {
  return with_chunk(Kind::kGarbage, server, chunk);
}

std::string quarantine(ServerId server, ChunkId chunk) {
  return with_chunk(Kind::kQuarantine, server, chunk);
}

std::string upload_stripe(UploadId upload, StripeId stripe) {
  std::string key = make(Kind::kUploadStripe, 16);
  append(key, upload.value);
  append(key, stripe.value);
  return key;
}

std::string quota(InodeId directory) {
  return with_id(Kind::kQuota, directory.value);
}
std::string unmarked(InodeId directory) {
  return with_id(Kind::kUnmarked, directory.value);
}
std::string snapshot(uint64_t number) {
  return with_id(Kind::kSnapshot, number);
}
std::string token(uint64_t id) {
  return with_id(Kind::kToken, id);
}
std::string trash(InodeId directory) {
  return with_id(Kind::kTrash, directory.value);
}
std::string trashed(InodeId directory, std::string_view name) {
  return with_id(Kind::kTrashed, directory.value).append(name);
}

std::string SavedKey::value() const {
  KINTSUGI_ASSERT(number <= kEnd);
  std::string saved = make(Kind::kSaved, key.size() + 8).append(key);
  append(saved, number);
  return saved;
}
std::string SavedKey::listed() const {
  KINTSUGI_ASSERT(number <= kEnd);
  return with_id(Kind::kSavedFor, number).append(key);
}
SavedKey SavedKey::of_value(std::string_view stored) {
  KINTSUGI_ASSERT(stored.size() > 9);
  return {std::string(stored.substr(1, stored.size() - 9)), id_at(stored, stored.size() - 8)};
}
SavedKey SavedKey::of_listed(std::string_view stored) {
  KINTSUGI_ASSERT(stored.size() > 9);
  return {std::string(stored.substr(9)), id_at(stored, 1)};
}
Range SavedKey::values_of(std::string_view key, uint64_t first, uint64_t end) {
  return {SavedKey{std::string(key), first}.value(), SavedKey{std::string(key), end}.value()};
}
Range SavedKey::values_in(const Range& range) {
  if (range.end.empty()) return {make(Kind::kSaved).append(range.begin), all(Kind::kSaved).end};
  return {make(Kind::kSaved).append(range.begin), make(Kind::kSaved).append(range.end)};
}
Range SavedKey::listed_for(uint64_t number) {
  return all(Kind::kSavedFor, number);
}

std::string_view name_of_trashed(std::string_view key) {
  return key.substr(9);
}

Range all(Kind kind) {
  return {make(kind), after_prefix(make(kind))};
}

Range all(Kind kind, uint64_t first_id) {
  std::string prefix = with_id(kind, first_id);
  return {prefix, after_prefix(prefix)};
}

Range entries(InodeId parent, std::string_view after) {
  Range range = all(Kind::kEntry, parent.value);
  // Names hold no NUL, so name + NUL is the least key after the name.
  if (!after.empty()) range.begin.append(after).push_back('\0');
  return range;
}

Range extents_after(InodeId content, uint64_t offset) {
  Range range = all(Kind::kExtent, content.value);
  range.begin = offset < UINT64_MAX ? extent(content, offset + 1) : range.end;
  return range;
}

std::string_view name_of_xattr(std::string_view key) {
  return key.substr(9);
}
uint64_t end_of_extent(std::string_view key) {
  return id_at(key, 9);
}
std::string_view name_of_entry(std::string_view key) {
  return key.substr(9);
}
uint64_t first_id(std::string_view key) {
  return id_at(key, 1);
}
ChunkId chunk_of(std::string_view key) {
  KINTSUGI_ASSERT(key.size() == 18);
  return {StripeId{id_at(key, 9)}, static_cast<uint8_t>(key[17])};
}
StripeId stripe_of_upload(std::string_view key) {
  return StripeId{id_at(key, 9)};
}
std::string_view text_of(std::string_view key) {
  return key.substr(1);
}

}  // namespace kintsugi::metaserver::keys
