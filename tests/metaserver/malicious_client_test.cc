// A client whose numbers mean nothing: inodes, sessions, ids, offsets, counts and names as no mount sends them. The metaserver answers
// or refuses each call, and what is stored stays consistent.
#include <climits>
#include <random>

#include "common/base/crc32c.h"
#include "metaserver/service/names_service.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kSessions[] = {0, 1, 2, 3, UINT64_MAX};

class MaliciousClient : public MetaServerRig {
 public:
  explicit MaliciousClient(uint64_t seed) : MetaServerRig(seed), random_(seed) {
    for (const uint64_t session : {1, 2, 3}) {
      proto::KeepSessionRequest request;
      request.set_session(session);
      request.set_all(true);
      KINTSUGI_EXPECT_OK(status_of(call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request)));
    }
    KINTSUGI_EXPECT_OK(put("/honest", 2));
    KINTSUGI_EXPECT_OK(make_directory("/d"));
    inodes_ = {0, 1, 2, UINT64_MAX, uint64_t{1} << 63, (uint64_t{1} << 63) + 1, uint64_t{1} << 53, INT64_MAX};
    for (const char* path : {"/honest", "/d"}) {
      proto::StatRequest request;
      request.set_path(path);
      inodes_.push_back(call<proto::StatResponse>(rpc::Method::kStat, request)->attributes().inode());
    }
    const auto opened = open("/honest");
    for (const auto& extent : opened->extents())
      extents_.push_back(extent);
  }

  void step() {
    switch (draw(17)) {
      case 0: return send<proto::InodeResponse>(rpc::Method::kLookup, lookup());
      case 1: return send<proto::InodeResponse>(rpc::Method::kGetInode, get());
      case 2: return send<proto::InodeResponse>(rpc::Method::kSetAttributes, set_attributes());
      case 3:
      case 4: return send<proto::InodeResponse>(rpc::Method::kMakeInode, make());
      case 5: return send<proto::InodeResponse>(rpc::Method::kLink, link());
      case 6: return send<proto::Empty>(rpc::Method::kUnlink, unlink());
      case 7: return send<proto::Empty>(rpc::Method::kMove, move_names());
      case 8: return send<proto::ListResponse>(rpc::Method::kListInode, list());
      case 9: return send<proto::Empty>(rpc::Method::kSetXattr, set_xattr());
      case 10:
      case 11: return send<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, write_extents());
      case 12: return send<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy_extents());
      case 13: return send<proto::KeepSessionResponse>(rpc::Method::kKeepSession, keep());
      case 14: return send<proto::LockResponse>(rpc::Method::kLock, lock());
      case 15: return send<proto::ReserveInodesResponse>(rpc::Method::kReserveInodes, reserve());
      default: return send<proto::WriteNamesResponse>(rpc::Method::kWriteNames, write_names());
    }
  }

  /// What must hold of the store, whatever was asked.
  void expect_consistent() {
    const Reader reader(*store);
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> named;  // extents and bytes, by stripe
    uint64_t files = 0, directories = 0;
    std::map<uint64_t, uint64_t> end;  // of the extents so far, by content
    reader.scan(keys::all(keys::Kind::kExtent), [&](std::string_view key, std::string_view value) {
      const auto extent = Reader::parse<proto::StoredExtent>(value);
      const uint64_t content = keys::first_id(key), offset = keys::end_of_extent(key) - extent.length();
      EXPECT_GT(extent.length(), 0u);
      EXPECT_GE(offset, end[content]) << "extents of " << content << " overlap";
      end[content] = offset + extent.length();
      const auto stripe = load_stripe(*store, StripeId{extent.stripe_id()});
      EXPECT_TRUE(stripe) << "an extent is of a stripe that is gone";
      if (!stripe) return true;
      EXPECT_LE(extent.stripe_offset() + extent.length(), stripe->length());
      ++named[extent.stripe_id()].first;
      named[extent.stripe_id()].second += extent.length();
      return true;
    });
    for (const auto& [id, count] : named) {
      const auto stripe = load_stripe(*store, StripeId{id});
      if (!stripe) continue;
      EXPECT_EQ(stripe->references(), count.first);
      EXPECT_EQ(stripe->live_bytes(), count.second);
    }
    std::map<uint64_t, uint64_t> names;
    reader.scan(keys::all(keys::Kind::kEntry), [&](std::string_view key, std::string_view value) {
      const auto entry = Reader::parse<proto::StoredDirectoryEntry>(value);
      const auto name = keys::name_of_entry(key);
      EXPECT_TRUE(!name.empty() && name.size() <= 255 && name != "." && name != "..") << name;
      EXPECT_EQ(name.find_first_of(std::string_view("/\0", 2)), name.npos);
      ++names[entry.inode()];
      EXPECT_TRUE(reader.get(keys::inode(InodeId{entry.inode()}))) << name << " names nothing";
      const auto parent = reader.get_message<proto::StoredInode>(keys::inode(InodeId{keys::first_id(key)}));
      EXPECT_TRUE(parent && is_directory(*parent)) << name << " is in no directory";
      return true;
    });
    reader.scan(keys::all(keys::Kind::kInode), [&](std::string_view key, std::string_view value) {
      const auto inode = Reader::parse<proto::StoredInode>(value);
      const uint64_t id = keys::first_id(key);
      (is_directory(inode) ? directories : files) += 1;
      if (!is_directory(inode)) EXPECT_EQ(inode.links(), names[id]) << "links of inode " << id;
      if (is_directory(inode) && id != kRootInode.value && inode.links() > 0) EXPECT_EQ(names[id], 1u);
      return true;
    });
    const auto totals = reader.get_message<proto::StoredTotals>(keys::totals());
    EXPECT_EQ(totals->files(), files);
    EXPECT_EQ(totals->directories(), directories);
  }

  size_t succeeded = 0;

 private:
  uint64_t draw(uint64_t bound) { return random_() % bound; }
  bool chance(uint64_t one_in) { return draw(one_in) == 0; }
  uint64_t inode() { return inodes_[draw(inodes_.size())]; }
  uint64_t session() { return kSessions[chance(4) ? draw(std::size(kSessions)) : 1]; }
  uint64_t number() {
    constexpr uint64_t kNumbers[] = {
        0,         1, 2, 4096, 65'536, 300'000, UINT32_MAX, INT64_MAX, uint64_t{1} << 63, UINT64_MAX - 4095,
        UINT64_MAX};
    return chance(4) ? random_() : kNumbers[draw(std::size(kNumbers))];
  }
  std::string name() {
    switch (draw(24)) {
      case 0: return "";
      case 1: return ".";
      case 2: return "..";
      case 3: return "a/b";
      case 4: return std::string("a\0b", 3);
      case 5: return std::string(256, 'n');
      case 6: return ".snapshots";
      case 7: return ".trash";
      case 8: return "honest";
      default: return std::string(1, static_cast<char>('a' + draw(6)));
    }
  }
  void fill(proto::Change& change) {
    change.set_session(session());
    change.set_number(chance(8) ? number() : ++change_);
    change.set_generation(static_cast<uint32_t>(chance(8) ? number() : 1));
  }
  void fill(proto::Caller& caller) {
    if (chance(3)) caller.set_uid(static_cast<uint32_t>(number()));
  }
  proto::LookupRequest lookup() {
    proto::LookupRequest request;
    request.set_parent(inode());
    request.set_name(name());
    request.set_session(session());
    return request;
  }
  proto::GetInodeRequest get() {
    proto::GetInodeRequest request;
    request.set_inode(inode());
    request.set_session(session());
    request.set_hold(chance(2));
    request.set_lease(chance(2));
    return request;
  }
  proto::SetAttributesRequest set_attributes() {
    proto::SetAttributesRequest request;
    fill(*request.mutable_caller());
    fill(*request.mutable_change());
    request.set_inode(inode());
    if (chance(3)) request.set_mode(static_cast<uint32_t>(number()));
    if (chance(6)) request.set_uid(static_cast<uint32_t>(number()));
    if (chance(3)) request.set_size(number());
    if (chance(3)) request.set_modified_ns(static_cast<int64_t>(number()));
    if (chance(3)) request.set_accessed_ns(static_cast<int64_t>(number()));
    request.set_kill_privileges(chance(3));
    return request;
  }
  proto::MakeInodeRequest make() {
    proto::MakeInodeRequest request;
    fill(*request.mutable_caller());
    fill(*request.mutable_change());
    request.set_parent(inode());
    request.set_name(name());
    request.set_type(static_cast<proto::Attributes::Type>(chance(8) ? number() : draw(8)));
    request.set_mode(static_cast<uint32_t>(number()));
    request.set_umask(static_cast<uint32_t>(number()));
    request.set_device(number());
    if (chance(2)) request.set_target(std::string(chance(8) ? 5000 : 9, 't'));
    request.set_hold_for(session());
    request.set_lease(chance(2));
    return request;
  }
  proto::LinkRequest link() {
    proto::LinkRequest request;
    fill(*request.mutable_change());
    request.set_inode(inode());
    request.set_parent(inode());
    request.set_name(name());
    return request;
  }
  proto::UnlinkRequest unlink() {
    proto::UnlinkRequest request;
    fill(*request.mutable_change());
    request.set_parent(inode());
    request.set_name(name());
    request.set_directory(chance(2));
    return request;
  }
  proto::MoveRequest move_names() {
    proto::MoveRequest request;
    fill(*request.mutable_change());
    request.set_parent(inode());
    request.set_name(name());
    request.set_to_parent(inode());
    request.set_to_name(name());
    request.set_no_replace(chance(4));
    request.set_exchange(chance(4));
    return request;
  }
  proto::ListInodeRequest list() {
    proto::ListInodeRequest request;
    request.set_directory(inode());
    request.set_after(name());
    request.set_limit(static_cast<uint32_t>(number()));
    request.set_names_only(chance(2));
    request.set_session(session());
    return request;
  }
  proto::SetXattrRequest set_xattr() {
    proto::SetXattrRequest request;
    fill(*request.mutable_change());
    request.set_inode(inode());
    constexpr const char* kNames[] = {"user.a",
                                      "user.",
                                      "trusted.x",
                                      "system.posix_acl_access",
                                      "system.posix_acl_default",
                                      "security.capability",
                                      ""};
    request.set_name(kNames[draw(std::size(kNames))]);
    request.set_value(std::string(chance(8) ? 70'000 : draw(60), static_cast<char>(random_())));
    request.set_remove(chance(3));
    return request;
  }
  void fill(google::protobuf::RepeatedPtrField<proto::Extent>& into) {
    for (uint64_t i = draw(4); i > 0; --i) {
      proto::Extent& extent = *into.Add();
      extent = extents_[draw(extents_.size())];
      if (chance(2)) extent.set_file_offset(chance(2) ? draw(5) * 65'536 : number());
      if (chance(2)) extent.set_length(chance(2) ? 1 + draw(5) * 65'536 : number());
      if (chance(3)) extent.set_stripe_offset(chance(2) ? draw(5) * 65'536 : number());
      if (chance(4)) extent.set_stripe_id(chance(2) ? 0 : number());
    }
  }
  proto::WriteExtentsRequest write_extents() {
    proto::WriteExtentsRequest request;
    fill(*request.mutable_change());
    request.set_inode(inode());
    if (chance(3)) {
      // Stripes that were really written, named for whatever comes.
      const auto allocated = allocate("/new");
      if (allocated) {
        const auto sealed = write(*allocated, 300'000);
        request.set_upload_id(allocated->upload_id());
        *request.add_sealed() = sealed;
        if (chance(8)) request.mutable_sealed(0)->mutable_stripe()->set_length(number());
        proto::Extent extent;
        extent.set_stripe_id(sealed.stripe().stripe_id());
        extent.set_length(300'000);
        extents_.push_back(extent);
      }
    } else if (chance(4)) {
      request.set_upload_id(number());
    }
    fill(*request.mutable_extents());
    if (chance(3)) {
      // Bytes to be kept with the metadata, of these extents or of others.
      request.set_inline_data(std::string(chance(4) ? number() % 70'000 : 4096, 'x'));
      request.set_inline_crc(chance(4) ? 7 : crc32c(std::as_bytes(std::span(request.inline_data()))));
      if (chance(2)) {
        request.clear_extents();
        proto::Extent& extent = *request.add_extents();
        extent.set_file_offset(chance(2) ? draw(5) * 65'536 : number());
        extent.set_length(request.inline_data().size());
      }
    }
    if (chance(6)) {
      // A hole in place of what the file has.
      request.clear_inline_data();
      request.clear_extents();
      request.add_extents()->set_length(300'000);
    }
    if (chance(4)) *request.mutable_names() = write_names();
    request.set_size_at_least(number());
    request.set_modified_ns(static_cast<int64_t>(number()));
    for (uint64_t i = draw(3); i > 0; --i) {
      proto::FileExtents& file = *request.add_more();
      file.set_inode(chance(2) ? request.inode() : inode());
      fill(*file.mutable_extents());
      if (chance(3)) *file.mutable_extents() = request.extents();
      file.set_size_at_least(number());
    }
    if (chance(6)) fill(*request.mutable_replaced());
    return request;
  }
  proto::CopyExtentsRequest copy_extents() {
    proto::CopyExtentsRequest request;
    fill(*request.mutable_change());
    request.set_from(inode());
    request.set_to(inode());
    request.set_from_offset(chance(2) ? draw(300'000) : number());
    request.set_to_offset(chance(2) ? draw(300'000) : number());
    request.set_length(chance(2) ? draw(600'000) : number());
    return request;
  }
  void fill(proto::FileLock& lock) {
    lock.set_type(static_cast<proto::FileLock::Type>(chance(8) ? number() : draw(3)));
    lock.set_begin(number());
    lock.set_end(number());
    lock.set_session(session());
    lock.set_owner(number());
  }
  proto::KeepSessionRequest keep() {
    proto::KeepSessionRequest request;
    request.set_session(session());
    for (uint64_t i = draw(4); i > 0; --i) {
      request.add_hold(inode());
      request.add_release(inode());
      request.add_lease(inode());
      request.add_give_back(inode());
      request.add_locks_of(inode());
      proto::HeldLock& held = *request.add_lock();
      held.set_inode(inode());
      held.set_whole_file(chance(2));
      fill(*held.mutable_lock());
    }
    request.set_all(chance(2));
    request.set_ends(chance(8));
    request.set_ask_locks(chance(2));
    return request;
  }
  proto::LockRequest lock() {
    proto::LockRequest request;
    request.set_inode(inode());
    fill(*request.mutable_lock());
    request.set_whole_file(chance(2));
    request.set_test_only(chance(4));
    request.set_waits(chance(2));
    return request;
  }
  proto::ReserveInodesRequest reserve() {
    proto::ReserveInodesRequest request;
    request.set_session(session());
    request.set_count(static_cast<uint32_t>(chance(2) ? draw(30) : number()));
    return request;
  }
  proto::WriteNamesRequest write_names() {
    proto::WriteNamesRequest request;
    request.set_session(session());
    if (chance(2)) request.set_number(chance(2) ? draw(10) : number());
    for (uint64_t i = chance(20) ? NamesService::kMaxChanges + 1 : draw(6); i > 0; --i) {
      proto::NameChange& change = *request.add_changes();
      change.set_inode(chance(2) ? inode() : reserved_ + draw(20));
      change.set_at_ns(static_cast<int64_t>(number()));
      if (!chance(4)) *change.mutable_make() = make();
      if (chance(3)) *change.mutable_attributes() = set_attributes();
      if (chance(3)) *change.mutable_unlink() = unlink();
    }
    return request;
  }

  void note(const proto::InodeResponse& answer) {
    if (answer.attributes().inode() != 0 && inodes_.size() < 60)
      inodes_.push_back(answer.attributes().inode());
  }
  void note(const proto::ReserveInodesResponse& answer) {
    if (answer.count() > 0) reserved_ = answer.first();
  }
  void note(const google::protobuf::MessageLite&) {}

  template <class Response>
  void send(rpc::Method method, const google::protobuf::MessageLite& request) {
    const auto answer = call<Response>(method, request);
    if (!answer) return;
    ++succeeded;
    note(*answer);
  }

  std::mt19937_64 random_;
  std::vector<uint64_t> inodes_;
  std::vector<proto::Extent> extents_;
  uint64_t change_ = 0, reserved_ = 0;
};

TEST(MaliciousClient, IsAnsweredOrRefusedAndNothingBecomesInconsistent) {
  const char* given = std::getenv("KINTSUGI_TEST_SEED");
  const char* rounds = std::getenv("KINTSUGI_TEST_ROUNDS");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  const uint64_t count = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : 4;
  size_t succeeded = 0;
  for (uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("replay with KINTSUGI_TEST_SEED={} KINTSUGI_TEST_ROUNDS=1", seed));
    MaliciousClient client(seed);
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
      client.step();
      if (i % 20 == 0) client.expect_consistent();
      if (i == 200) client.restart(false);
      if (i % 50 == 0) client.pass(1);
    }
    client.expect_consistent();
    succeeded += client.succeeded;
  }
  EXPECT_GT(succeeded, 50 * count) << "everything is refused: this shows little";
}

}  // namespace
}  // namespace kintsugi::metaserver
