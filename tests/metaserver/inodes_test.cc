// Operations by inode: names, permissions, access lists, extents that are shared, changes that are repeated.
#include "metaserver/namespace/changes.h"
#include "metaserver/namespace/ops/attributes.h"
#include "metaserver/namespace/ops/links.h"
#include "metaserver/namespace/ops/make.h"
#include "metaserver/namespace/ops/move.h"
#include "metaserver/namespace/ops/xattrs.h"
#include "tests/metaserver/metaserver_rig.h"
#include "tests/metaserver/namespace_rig.h"

namespace kintsugi::metaserver {
namespace {

const Caller kUser{1000, 100, {}}, kOtherUser{2000, 200, {}}, kMember{3000, 300, {100}};

Result<InodeId> make(NamespaceRig& rig, const Caller& caller, InodeId parent, std::string_view name,
                     proto::Attributes::Type type, uint32_t mode, uint32_t umask = 0) {
  InodeId made;
  const Status status = rig.apply([&](Transaction& t) -> Status {
    NewInode wanted;
    wanted.type = type;
    wanted.mode = mode;
    wanted.umask = umask;
    KINTSUGI_ASSIGN(made, ops::make(*rig.inodes, t, caller, parent, name, wanted));
    return {};
  });
  if (!status.ok()) return status;
  return made;
}

Status unlink(NamespaceRig& rig, const Caller& caller, InodeId parent, std::string_view name) {
  return rig.apply([&](Transaction& t) {
    return ops::unlink(*rig.inodes, t, caller, {.parent = parent, .name = name}, rig.freed);
  });
}

Status set_mode(NamespaceRig& rig, const Caller& caller, InodeId id, uint32_t mode) {
  proto::SetAttributesRequest request;
  request.set_inode(id.value);
  request.set_mode(mode);
  return rig.apply(
      [&](Transaction& t) { return ops::set_attributes(*rig.inodes, t, caller, request, rig.freed); });
}

proto::StoredInode stored(NamespaceRig& rig, InodeId id) {
  return load_inode(*rig.store, id);
}

TEST(Inodes, AreWhatTheirDirectoryAndTheirMakerSay) {
  NamespaceRig rig;
  const InodeId directory = *make(rig, Caller::root(), kRootInode, "d", proto::Attributes::DIRECTORY, 0777);
  const InodeId file = *make(rig, kUser, directory, "f", proto::Attributes::FILE, 0666, 022);
  EXPECT_EQ(stored(rig, file).mode(), 0644u);
  EXPECT_EQ(stored(rig, file).uid(), 1000u);
  EXPECT_EQ(stored(rig, file).gid(), 100u);
  KINTSUGI_ASSERT_OK(set_mode(rig, Caller::root(), directory, 03777));
  const InodeId child = *make(rig, kUser, directory, "c", proto::Attributes::DIRECTORY, 0755);
  EXPECT_EQ(stored(rig, child).mode(), 02755u) << "the set-group-ID bit is handed down";
  EXPECT_EQ(stored(rig, child).gid(), 0u);
  EXPECT_EQ(unlink(rig, kOtherUser, directory, "f").code(), Code::kNotPermitted) << "the directory is sticky";
  KINTSUGI_EXPECT_OK(unlink(rig, kUser, directory, "f"));
  EXPECT_EQ(make(rig, kOtherUser, child, "x", proto::Attributes::FILE, 0644).error().code(),
            Code::kAccessDenied);
  EXPECT_EQ(set_mode(rig, kOtherUser, child, 0777).code(), Code::kNotPermitted);
  EXPECT_EQ(make(rig, kUser, child, std::string(256, 'n'), proto::Attributes::FILE, 0644).error().code(),
            Code::kNameTooLong);
}

TEST(Inodes, AccessListsAreEvaluatedHandedDownAndFollowTheMode) {
  NamespaceRig rig;
  const InodeId directory = *make(rig, Caller::root(), kRootInode, "d", proto::Attributes::DIRECTORY, 0755);
  AccessList list;
  list.items = {{AccessList::kOwner, 7, 0},   {AccessList::kUser, 7, 1000}, {AccessList::kOwningGroup, 5, 0},
                {AccessList::kGroup, 4, 100}, {AccessList::kMask, 7, 0},    {AccessList::kOther, 0, 0}};
  for (const std::string_view name : {kAccessList, kDefaultList}) {
    proto::SetXattrRequest request;
    request.set_inode(directory.value);
    request.set_name(std::string(name));
    request.set_value(list.serialise());
    KINTSUGI_ASSERT_OK(
        rig.apply([&](Transaction& t) { return ops::set_xattr(*rig.inodes, t, Caller::root(), request); }));
  }
  EXPECT_EQ(stored(rig, directory).mode(), 0770u) << "the group's bits show the mask";
  EXPECT_EQ(make(rig, kOtherUser, directory, "x", proto::Attributes::FILE, 0644).error().code(),
            Code::kAccessDenied);
  const InodeId file = *make(rig, kUser, directory, "f", proto::Attributes::FILE, 0640, 077);
  EXPECT_EQ(stored(rig, file).mode(), 0640u) << "the umask does not count where there is a default list";
  const Transaction look(*rig.store);
  const auto may = [&](const Caller& caller, uint32_t what) {
    return check_access(look, caller, file, stored(rig, file), what).ok();
  };
  EXPECT_TRUE(may(kMember, kMayRead));
  EXPECT_FALSE(may(kMember, kMayWrite));
  EXPECT_FALSE(may(kOtherUser, kMayRead));
  KINTSUGI_ASSERT_OK(set_mode(rig, kUser, file, 0600));
  EXPECT_FALSE(may(kMember, kMayRead)) << "the mask follows the mode";
  EXPECT_EQ(AccessList::parse("garbage").error().code(), Code::kInvalidArgument);
}

proto::SetXattrRequest xattr(InodeId id, std::string_view name, std::string value = {}) {
  proto::SetXattrRequest request;
  request.set_inode(id.value);
  request.set_name(std::string(name));
  request.set_value(std::move(value));
  return request;
}

Status set_xattr(NamespaceRig& rig, const Caller& caller, const proto::SetXattrRequest& request) {
  return rig.apply([&](Transaction& t) { return ops::set_xattr(*rig.inodes, t, caller, request); });
}

TEST(Inodes, AttributesAndListsAreThoseOfLinuxInOddCases) {
  NamespaceRig rig;
  const InodeId file =
      *make(rig, kUser, *make(rig, Caller::root(), kRootInode, "d", proto::Attributes::DIRECTORY, 0777), "f",
            proto::Attributes::FILE, 0604);
  EXPECT_EQ(set_xattr(rig, kUser, xattr(file, "user.", "v")).code(), Code::kInvalidArgument);
  EXPECT_EQ(set_xattr(rig, kUser, xattr(file, "user", "v")).code(), Code::kNotSupported);
  EXPECT_EQ(ops::get_xattr(Transaction(*rig.store), kUser, file, "user.").error().code(),
            Code::kInvalidArgument);
  proto::SetXattrRequest both = xattr(file, "user.a", "v");
  both.set_create(true);
  both.set_replace(true);
  EXPECT_EQ(set_xattr(rig, kUser, both).code(), Code::kNoData);
  proto::SetXattrRequest remove = xattr(file, kAccessList);
  remove.set_remove(true);
  KINTSUGI_EXPECT_OK(set_xattr(rig, kUser, remove));
  // A mask that grants nothing: the kernel then does not look at the list, and neither may anybody else.
  AccessList list;
  list.items = {{AccessList::kOwner, 6, 0},
                {AccessList::kUser, 4, kOtherUser.uid},
                {AccessList::kOwningGroup, 7, 0},
                {AccessList::kMask, 0, 0},
                {AccessList::kOther, 4, 0}};
  KINTSUGI_ASSERT_OK(set_xattr(rig, kUser, xattr(file, kAccessList, list.serialise())));
  const Transaction look(*rig.store);
  EXPECT_TRUE(check_access(look, kOtherUser, file, stored(rig, file), kMayRead).ok());
  EXPECT_FALSE(check_access(look, kMember, file, stored(rig, file), kMayRead).ok());
}

TEST(Inodes, WhoeverChangesAFileTakesItsPrivilegesAway) {
  NamespaceRig rig;
  const InodeId file = *make(rig, Caller::root(), kRootInode, "f", proto::Attributes::FILE, 06777);
  constexpr std::string_view kCapabilities = "security.capability";
  const auto change = [&](const Caller& caller, auto fill) {
    proto::SetAttributesRequest request;
    request.set_inode(file.value);
    fill(request);
    return rig.apply(
        [&](Transaction& t) { return ops::set_attributes(*rig.inodes, t, caller, request, rig.freed); });
  };
  const auto arm = [&](uint32_t mode) {
    KINTSUGI_ASSERT_OK(set_mode(rig, Caller::root(), file, mode));
    KINTSUGI_ASSERT_OK(set_xattr(rig, Caller::root(), xattr(file, kCapabilities, "c")));
  };
  const auto has_capabilities = [&] {
    return ops::get_xattr(Transaction(*rig.store), Caller::root(), file, kCapabilities).has_value();
  };
  arm(06777);
  KINTSUGI_ASSERT_OK(
      change(kOtherUser, [](auto& request) { request.set_size(0), request.set_kill_privileges(true); }));
  EXPECT_EQ(stored(rig, file).mode(), 0777u);
  EXPECT_FALSE(has_capabilities());
  arm(06755);
  EXPECT_EQ(change(kOtherUser, [](auto& request) { request.set_kill_privileges(true); }).code(),
            Code::kNotPermitted)
      << "neither the owner nor one who may write";
  EXPECT_EQ(stored(rig, file).mode(), 06755u);
  KINTSUGI_ASSERT_OK(change(Caller::root(), [](auto& request) { request.set_kill_privileges(true); }));
  EXPECT_EQ(stored(rig, file).mode(), 0755u);
  arm(02666);
  KINTSUGI_ASSERT_OK(
      change(kOtherUser, [](auto& request) { request.set_size(0), request.set_kill_privileges(true); }));
  EXPECT_EQ(stored(rig, file).mode(), 0666u) << "one who is not of the group";
  // The kernel takes them away in the name of whoever writes.
  arm(0666);
  proto::SetXattrRequest remove = xattr(file, kCapabilities);
  remove.set_remove(true);
  KINTSUGI_EXPECT_OK(set_xattr(rig, kOtherUser, remove));
  arm(0644);
  EXPECT_EQ(set_xattr(rig, kOtherUser, remove).code(), Code::kNotPermitted);
}

TEST(Inodes, NamesAreLinkedMovedAndExchanged) {
  NamespaceRig rig;
  const Caller root = Caller::root();
  const InodeId a = *make(rig, root, kRootInode, "a", proto::Attributes::DIRECTORY, 0755);
  const InodeId b = *make(rig, root, a, "b", proto::Attributes::DIRECTORY, 0755);
  const InodeId file = *make(rig, root, kRootInode, "f", proto::Attributes::FILE, 0644);
  KINTSUGI_ASSERT_OK(
      rig.apply([&](Transaction& t) { return ops::link(*rig.inodes, t, root, file, b, "g"); }));
  EXPECT_EQ(stored(rig, file).links(), 2u);
  const auto move = [&](InodeId from, const char* name, InodeId to, const char* to_name, ops::Target target) {
    return rig.apply([&](Transaction& t) {
      return ops::move(*rig.inodes, t, root, {from, name, to, to_name, target}, rig.freed);
    });
  };
  EXPECT_EQ(move(kRootInode, "a", b, "x", ops::Target::kReplace).code(), Code::kInvalidArgument);
  EXPECT_EQ(move(kRootInode, "f", b, "g", ops::Target::kReplace).code(), Code::kOk) << "both are one inode";
  EXPECT_EQ(stored(rig, file).links(), 2u);
  KINTSUGI_EXPECT_OK(move(kRootInode, "f", a, "b", ops::Target::kExchange));
  EXPECT_EQ(stored(rig, kRootInode).links(), 4u) << "two directories are in it now";
  EXPECT_EQ(stored(rig, b).parent(), kRootInode.value);
  EXPECT_EQ(*Inodes::lookup(Transaction(*rig.store), root, b, ".."), kRootInode);
  EXPECT_EQ(unlink(rig, root, b, "g").code(), Code::kOk);
  EXPECT_EQ(stored(rig, file).links(), 1u);
  EXPECT_EQ(unlink(rig, root, a, "b").code(), Code::kOk);
  EXPECT_FALSE(Inodes::find(Transaction(*rig.store), file)) << "that was its last name";
}

TEST(Inodes, ExtentsAreCutSharedAndTheirStripesFreedWithTheLastOne) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/one", 1, 100'000));
  KINTSUGI_ASSERT_OK(rig.put("/two", 1, 50'000));
  const auto one = *rig.open("/one"), two = *rig.open("/two");
  proto::CopyExtentsRequest copy;
  copy.set_from(one.attributes().inode());
  copy.set_from_offset(10'000);
  copy.set_to(two.attributes().inode());
  copy.set_to_offset(20'000);
  copy.set_length(10'000);
  ASSERT_TRUE(rig.call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy));
  const auto shared = *rig.open("/two");
  ASSERT_EQ(shared.extents_size(), 3) << "what was there is cut in two";
  EXPECT_EQ(shared.extents(1).stripe_id(), one.extents(0).stripe_id());
  EXPECT_EQ(shared.extents(1).stripe_offset(), 10'000u);
  EXPECT_EQ(shared.extents(2).stripe_offset(), 30'000u);
  KINTSUGI_ASSERT_OK(rig.remove("/one"));
  EXPECT_TRUE(rig.open("/two", 20'000, 100)) << "the other file still needs the stripe";
  EXPECT_TRUE(rig.told.deleted.empty());
  proto::WriteExtentsRequest punch;
  punch.set_inode(two.attributes().inode());
  proto::Extent& hole = *punch.add_extents();
  hole.set_file_offset(15'000);
  hole.set_length(20'000);
  ASSERT_TRUE(rig.call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, punch));
  EXPECT_EQ(rig.told.deleted, std::vector<StripeId>{StripeId{one.extents(0).stripe_id()}});
  const auto left = *rig.open("/two");
  ASSERT_EQ(left.extents_size(), 2);
  EXPECT_EQ(left.extents(0).length(), 15'000u);
  EXPECT_EQ(left.extents(1).file_offset(), 35'000u);
  EXPECT_EQ(left.attributes().used_bytes(), 30'000u);
}

TEST(Inodes, AChangeThatIsRepeatedIsNotDoneTwice) {
  MetaServerRig rig;
  proto::MakeInodeRequest make;
  make.set_parent(kRootInode.value);
  make.set_name("f");
  make.set_mode(0644);
  make.mutable_change()->set_session(77);
  make.mutable_change()->set_number(1);
  make.mutable_change()->set_generation(1);
  const auto made = rig.call<proto::InodeResponse>(rpc::Method::kMakeInode, make);
  ASSERT_TRUE(made) << made.error();
  rig.restart();
  const auto again = rig.call<proto::InodeResponse>(rpc::Method::kMakeInode, make);
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->attributes().inode(), made->attributes().inode());
  make.mutable_change()->set_generation(2);
  EXPECT_EQ(rig.call<proto::InodeResponse>(rpc::Method::kMakeInode, make).error().code(),
            Code::kAlreadyExists);
}

TEST(Inodes, AFileThatASessionHoldsOutlivesItsNameUntilTheSessionEnds) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const auto file = *rig.open("/f");
  proto::KeepSessionRequest keep;
  keep.set_session(5);
  keep.add_hold(file.attributes().inode());
  keep.set_all(true);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, keep));
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  rig.restart();
  proto::GetInodeRequest get;
  get.set_inode(file.attributes().inode());
  rig.pass(20);
  ASSERT_TRUE(rig.call<proto::InodeResponse>(rpc::Method::kGetInode, get)) << "the session may still tell";
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, keep));
  rig.pass(50);
  EXPECT_TRUE(rig.call<proto::InodeResponse>(rpc::Method::kGetInode, get));
  rig.pass(30);
  EXPECT_EQ(rig.call<proto::InodeResponse>(rpc::Method::kGetInode, get).error().code(), Code::kStale)
      << "nobody has heard of the session for a minute";
}

}  // namespace
}  // namespace kintsugi::metaserver
