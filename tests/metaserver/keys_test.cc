// Every range of keys holds what its fields say and nothing else, whatever the names and ids are.
#include "metaserver/schema/keys.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/metaserver/mean_names.h"

namespace kintsugi::metaserver::keys {
namespace {

/// Ids that are bytes of each other or of names, and the ends of what there is.
const std::vector<uint64_t> kIds{
    0,         1,      0x61,   0x6161, 0x61616161,        0x6161616161616161, 0xff,
    0xffff,    0xff00, 0x0100, 1 << 8, uint64_t{1} << 55, SavedKey::kEnd - 1, UINT64_MAX - 1,
    UINT64_MAX};

/// What a key was made of, by key.
template <class Fields>
using Made = std::map<std::string, Fields>;

/// The keys of a range, of those that were made.
template <class Fields>
std::set<std::string> in(const Made<Fields>& made, const Range& range) {
  std::set<std::string> found;
  for (const auto& [key, fields] : made)
    if (key >= range.begin && (range.end.empty() || key < range.end)) found.insert(key);
  return found;
}
template <class Fields, class Wanted>
std::set<std::string> where(const Made<Fields>& made, const Wanted& wanted) {
  std::set<std::string> found;
  for (const auto& [key, fields] : made)
    if (wanted(fields)) found.insert(key);
  return found;
}

struct Named {
  uint64_t id = 0;
  std::string name;
};

TEST(Keys, EntriesOfADirectoryAreThoseThatFollowAName) {
  Made<Named> made;
  for (const uint64_t id : kIds)
    for (const std::string& name : mean_names('a'))
      made[entry(InodeId{id}, name)] = {id, name};
  EXPECT_EQ(made.size(), std::set<uint64_t>(kIds.begin(), kIds.end()).size() * mean_names('a').size());
  for (const auto& [key, fields] : made) {
    EXPECT_EQ(first_id(key), fields.id);
    EXPECT_EQ(name_of_entry(key), fields.name);
    EXPECT_EQ(in(made, entries(InodeId{fields.id}, fields.name)),
              where(made, [&, &fields = fields](const Named& other) {
                return other.id == fields.id && other.name > fields.name;
              }));
    EXPECT_EQ(in(made, entries(InodeId{fields.id})),
              where(made, [&, &fields = fields](const Named& other) { return other.id == fields.id; }));
  }
}

TEST(Keys, EachKindAndEachFirstIdHasARangeOfItsOwn) {
  struct Kinded {
    Kind kind;
    uint64_t id;
  };
  Made<Kinded> made;
  for (const uint64_t id : kIds) {
    for (const uint64_t second : kIds) {
      const ChunkId chunk{StripeId{second}, static_cast<uint32_t>(second & kMaxIndex)};
      made[extent(InodeId{id}, second)] = {Kind::kExtent, id};
      made[server_chunk(ServerId{id}, chunk)] = {Kind::kServerChunk, id};
      made[garbage(ServerId{id}, chunk)] = {Kind::kGarbage, id};
      made[quarantine(ServerId{id}, chunk)] = {Kind::kQuarantine, id};
      made[upload_stripe(UploadId{id}, StripeId{second})] = {Kind::kUploadStripe, id};
      made[change(id, second)] = {Kind::kChange, id};
      if (id < SavedKey::kEnd)
        made[SavedKey{extent(InodeId{second}, id), id}.listed()] = {Kind::kSavedFor, id};
    }
    for (const std::string& name : mean_names('a')) {
      made[xattr(InodeId{id}, name)] = {Kind::kXattr, id};
      made[trashed(InodeId{id}, name)] = {Kind::kTrashed, id};
    }
    made[inode(InodeId{id})] = {Kind::kInode, id};
    made[orphan(InodeId{id})] = {Kind::kOrphan, id};
    made[stripe(StripeId{id})] = {Kind::kStripe, id};
    made[quota(InodeId{id})] = {Kind::kQuota, id};
    made[snapshot(id)] = {Kind::kSnapshot, id};
  }
  std::set<std::pair<Kind, uint64_t>> seen;
  for (const auto& [key, fields] : made) {
    EXPECT_EQ(first_id(key), fields.id);
    if (!seen.insert({fields.kind, fields.id}).second) continue;
    EXPECT_EQ(in(made, all(fields.kind, fields.id)), where(made, [&, &fields = fields](const Kinded& other) {
                return other.kind == fields.kind && other.id == fields.id;
              }));
    EXPECT_EQ(in(made, all(fields.kind)),
              where(made, [&, &fields = fields](const Kinded& other) { return other.kind == fields.kind; }));
  }
}

TEST(Keys, ExtentsAfterAnOffsetAreThoseThatEndAfterIt) {
  Made<std::pair<uint64_t, uint64_t>> made;
  for (const uint64_t content : kIds)
    for (const uint64_t end : kIds)
      made[extent(InodeId{content}, end)] = {content, end};
  for (const auto& [key, fields] : made) {
    EXPECT_EQ(end_of_extent(key), fields.second);
    EXPECT_EQ(in(made, extents_after(InodeId{fields.first}, fields.second)),
              where(made, [&, &fields = fields](const auto& other) {
                return other.first == fields.first && other.second > fields.second;
              }));
  }
}

class SavedKeys : public testing::Test {
 protected:
  SavedKeys() {
    for (const uint64_t id : kIds) {
      for (const std::string& name : mean_names('a')) {
        save(entry(InodeId{id}, name));
        save(xattr(InodeId{id}, name));
      }
      save(inode(InodeId{id}));
      for (const uint64_t end : kIds)
        save(extent(InodeId{id}, end));
    }
  }
  void save(const std::string& key) {
    keys_.insert(key);
    for (const uint64_t number : kNumbers)
      made_[SavedKey{key, number}.value()] = {key, number};
  }

  const std::vector<uint64_t> kNumbers{1, 2, 0x61, 0x6161, 0xff, 0xff00, SavedKey::kEnd - 1};
  std::set<std::string> keys_;
  Made<SavedKey> made_;
};

TEST_F(SavedKeys, SayWhatTheyWereMadeOf) {
  EXPECT_EQ(made_.size(), keys_.size() * kNumbers.size()) << "no two have one key";
  for (const auto& [stored, fields] : made_) {
    EXPECT_EQ(SavedKey::of_value(stored), fields);
    EXPECT_EQ(SavedKey::of_listed(fields.listed()), fields);
  }
}

TEST_F(SavedKeys, OfOneKeyAreNotThoseOfKeysThatBeginWithIt) {
  for (const std::string& key : keys_) {
    for (const uint64_t first : kNumbers) {
      const auto found = in(made_, SavedKey::values_of(key, first));
      size_t expected = 0;
      for (const uint64_t number : kNumbers)
        if (number >= first) expected += found.contains(SavedKey{key, number}.value()) ? 1 : 0;
      ASSERT_EQ(found.size(), expected) << "others are among them";
      ASSERT_EQ(found.size(), static_cast<size_t>(std::count_if(kNumbers.begin(), kNumbers.end(),
                                                                [&](uint64_t n) { return n >= first; })));
      ASSERT_EQ(in(made_, SavedKey::values_of(key, 0, first)).size(),
                static_cast<size_t>(
                    std::count_if(kNumbers.begin(), kNumbers.end(), [&](uint64_t n) { return n < first; })));
    }
  }
}

TEST_F(SavedKeys, LieInTheOrderOfTheirKeys) {
  std::string last;
  uint64_t last_number = 0;
  for (const auto& [stored, fields] : made_) {
    ASSERT_TRUE(last < fields.key || (last == fields.key && last_number < fields.number));
    last = fields.key;
    last_number = fields.number;
  }
}

TEST_F(SavedKeys, OfARangeAreAllOfThem) {
  for (const uint64_t id : kIds) {
    for (const std::string& name : mean_names('a')) {
      const Range range = entries(InodeId{id}, name);
      const auto found = in(made_, SavedKey::values_in(range));
      for (const auto& [stored, fields] : made_)
        if (fields.key >= range.begin && fields.key < range.end) ASSERT_TRUE(found.contains(stored));
      for (const std::string& stored : found)
        ASSERT_EQ(made_.at(stored).key[0], static_cast<char>(Kind::kEntry));
    }
  }
  EXPECT_EQ(in(made_, SavedKey::values_in({entry(InodeId{UINT64_MAX}, "a"), ""})).empty(), false)
      << "an empty end is no limit";
}

// These are the keys that the previous release makes (scripts/previous_release): so what it stored is found, and it finds
// what is stored now.
TEST(Keys, AreStoredAsTheyWere) {
  constexpr InodeId kInode{0x0102030405060708};
  constexpr StripeId kStripe{0x1112131415161718};
  constexpr ServerId kServer{0x2122232425262728};
  constexpr ChunkId kChunk{kStripe, 9};
  constexpr UploadId kUpload{0x3132333435363738};
  const std::vector<std::pair<std::string, std::string>> stored{
      {cluster(), "4d"},
      {totals(), "41"},
      {counter("inode"), "4e696e6f6465"},
      {policy("rs-6-3-1024k"), "5072732d362d332d313032346b"},
      {inode(kInode), "490102030405060708"},
      {extent(kInode, 4096), "4601020304050607080000000000001000"},
      {xattr(kInode, "user.a"), "590102030405060708757365722e61"},
      {change(5, 6), "4b00000000000000050000000000000006"},
      {request(7), "610000000000000007"},
      {orphan(kInode), "4f0102030405060708"},
      {entry(kInode, "name"), "4401020304050607086e616d65"},
      {stripe(kStripe), "531112131415161718"},
      {server(kServer), "562122232425262728"},
      {server_chunk(kServer, kChunk), "432122232425262728111213141516171809"},
      {garbage(kServer, kChunk), "472122232425262728111213141516171809"},
      {upload(kUpload), "553132333435363738"},
      {epoch(8), "480000000000000008"},
      {abandoned(8), "420000000000000008"},
      {doubt(), "58"},
      {quarantine(kServer, kChunk), "512122232425262728111213141516171809"},
      {upload_stripe(kUpload, kStripe), "5431323334353637381112131415161718"},
      {quota(kInode), "4c0102030405060708"},
      {unmarked(kInode), "4a0102030405060708"},
      {snapshot(3), "5a0000000000000003"},
      {trash(kInode), "630102030405060708"},
      {trashed(kInode, "name"), "6401020304050607086e616d65"},
      {SavedKey{inode(kInode), 3}.value(), "574901020304050607080000000000000003"},
      {SavedKey{inode(kInode), 3}.listed(), "520000000000000003490102030405060708"},
  };
  for (const auto& [key, text] : stored) {
    std::string hex;
    for (const unsigned char byte : key)
      hex += fmt::format("{:02x}", byte);
    EXPECT_EQ(hex, text);
  }
}

}  // namespace
}  // namespace kintsugi::metaserver::keys
