// Names that a session gives by itself under the lease of a directory: who sees them when, and which are refused.
#include "common/base/crc32c.h"
#include "metaserver/service/names_service.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

struct NamesRig : MetaServerRig {
  NamesRig() {
    for (const uint64_t session : {kOwner, kOther})
      KINTSUGI_EXPECT_OK(keep(session, [](auto& request) { request.set_all(true); }));
    proto::MakeInodeRequest request;
    request.set_parent(1);
    request.set_name("d");
    request.set_type(proto::Attributes::DIRECTORY);
    request.set_mode(0755);
    request.set_lease(true);
    request.mutable_change()->set_session(kOwner);
    request.mutable_change()->set_number(1);
    const auto made = call<proto::InodeResponse>(rpc::Method::kMakeInode, request);
    KINTSUGI_ASSERT(made && made->lease() && !made->file_policy().empty());
    directory = made->attributes().inode();
    proto::ReserveInodesRequest reserve;
    reserve.set_session(kOwner);
    reserve.set_count(100);
    const auto reserved = call<proto::ReserveInodesResponse>(rpc::Method::kReserveInodes, reserve);
    KINTSUGI_ASSERT(reserved && reserved->count() > 0);
    first = reserved->first();
  }

  /// A call that gives up before the metaserver does.
  template <class Response>
  Result<Response> call(rpc::Method method, const google::protobuf::MessageLite& request) {
    const auto limited = [](MetaServerRig& rig, rpc::Method method,
                            const google::protobuf::MessageLite& request,
                            Response& response) -> asio::awaitable<Status> {
      Context context;
      context.deadline = rig.simulation.now() + 4s;
      co_return co_await rig.client->call(context, {"10.0.0.1", 7000}, method, request, response);
    };
    Response response;
    const Status status = simulation.run(limited(*this, method, request, response));
    if (!status.ok()) return status;
    return response;
  }
  Status keep(uint64_t session, const std::function<void(proto::KeepSessionRequest&)>& fill) {
    proto::KeepSessionRequest request;
    request.set_session(session);
    fill(request);
    const auto kept = call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request);
    return kept ? Status{} : kept.error();
  }
  static void add(proto::WriteNamesRequest& request, uint64_t inode, uint64_t parent, const std::string& name,
                  proto::Attributes::Type type = proto::Attributes::FILE) {
    proto::NameChange& change = *request.add_changes();
    change.set_inode(inode);
    change.mutable_make()->set_parent(parent);
    change.mutable_make()->set_name(name);
    change.mutable_make()->set_type(type);
    change.mutable_make()->set_mode(0644);
    change.mutable_make()->set_lease(true);
  }
  static void remove(proto::WriteNamesRequest& request, uint64_t inode, uint64_t parent,
                     const std::string& name) {
    proto::NameChange& change = *request.add_changes();
    change.set_inode(inode);
    change.mutable_unlink()->set_parent(parent);
    change.mutable_unlink()->set_name(name);
  }
  Result<proto::Attributes> get(uint64_t inode) {
    proto::GetInodeRequest request;
    request.set_session(kOwner);
    request.set_inode(inode);
    const auto found = call<proto::InodeResponse>(rpc::Method::kGetInode, request);
    if (!found) return found.error();
    return found->attributes();
  }
  /// The code of each change.
  Result<std::vector<Code>> write(proto::WriteNamesRequest request, uint64_t session = kOwner) {
    request.set_session(session);
    const auto answer = call<proto::WriteNamesResponse>(rpc::Method::kWriteNames, request);
    if (!answer) return answer.error();
    std::vector<Code> codes;
    for (const auto& written : answer->changes())
      codes.push_back(static_cast<Code>(written.code()));
    return codes;
  }
  Result<uint64_t> lookup(uint64_t session, uint64_t parent, const std::string& name) {
    proto::LookupRequest request;
    request.set_session(session);
    request.set_parent(parent);
    request.set_name(name);
    const auto found = call<proto::InodeResponse>(rpc::Method::kLookup, request);
    if (!found) return found.error();
    return found->attributes().inode();
  }
  /// The owner is silent until another one is told what there is.
  void lose_lease() {
    EXPECT_FALSE(lookup(kOther, directory, "f"));
    EXPECT_FALSE(lookup(kOther, directory, "f"));
    EXPECT_EQ(lookup(kOther, directory, "f").error().code(), Code::kNotFound) << "it has lost the lease";
  }
  Status give_back() {
    return keep(kOwner, [&](auto& request) { request.add_give_back(directory); });
  }

  uint64_t directory = 0, first = 0;
};

using Codes = std::vector<Code>;

TEST(LeasedNames, OthersSeeThemOnceTheLeaseIsGivenBack) {
  NamesRig rig;
  EXPECT_EQ(rig.lookup(kOther, rig.directory, "f").error().code(), Code::kDeadlineExceeded)
      << "whether there is such a name is the owner's to say";
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(request).value(), Codes{Code::kOk});
  EXPECT_EQ(rig.lookup(kOther, rig.directory, "f").error().code(), Code::kDeadlineExceeded);
  KINTSUGI_EXPECT_OK(rig.give_back());
  EXPECT_EQ(rig.lookup(kOther, rig.directory, "g").error().code(), Code::kNotFound);
  KINTSUGI_EXPECT_OK(
      rig.keep(kOwner, [&](auto& request) { request.add_give_back(rig.first); }));  // the file has one, too
  EXPECT_EQ(rig.lookup(kOther, rig.directory, "f").value(), rig.first);
}

TEST(LeasedNames, EverythingThatShowsOrChangesTheDirectoryWaitsForItsOwner) {
  NamesRig rig;
  // One that says that it is there is waited for.
  const auto still_there = [&] { KINTSUGI_EXPECT_OK(rig.keep(kOwner, [](auto&) {})); };
  const auto by_path = [&](rpc::Method method, auto request) {
    still_there();
    request.set_path(method == rpc::Method::kMakeDirectory ? "/d/new" : "/d");
    return rig.call<proto::Empty>(method, request).error().code();
  };
  EXPECT_EQ(by_path(rpc::Method::kMakeDirectory, proto::MakeDirectoryRequest{}), Code::kDeadlineExceeded);
  EXPECT_EQ(by_path(rpc::Method::kRemove, proto::RemoveRequest{}), Code::kDeadlineExceeded);
  proto::ListRequest list;
  list.set_path("/d");
  still_there();
  EXPECT_EQ(rig.call<proto::ListResponse>(rpc::Method::kList, list).error().code(), Code::kDeadlineExceeded);
  proto::UnlinkRequest unlink;
  unlink.set_parent(1);
  unlink.set_name("d");
  unlink.set_directory(true);
  unlink.mutable_change()->set_session(kOther);
  unlink.mutable_change()->set_number(1);
  still_there();
  EXPECT_EQ(rig.call<proto::Empty>(rpc::Method::kUnlink, unlink).error().code(), Code::kDeadlineExceeded)
      << "nobody knows whether it is empty";
  proto::ListInodeRequest page;
  page.set_session(kOther);
  page.set_directory(rig.directory);
  still_there();
  EXPECT_EQ(rig.call<proto::ListResponse>(rpc::Method::kListInode, page).error().code(),
            Code::kDeadlineExceeded);
}

TEST(LeasedNames, WhatIsWrittenTwiceIsThereOnce) {
  NamesRig rig;
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "sub", proto::Attributes::DIRECTORY);
  NamesRig::add(request, rig.first + 1, rig.first, "f");
  EXPECT_EQ(rig.write(request).value(), (Codes{Code::kOk, Code::kOk}));
  EXPECT_EQ(rig.write(request).value(), (Codes{Code::kOk, Code::kOk})) << "the answer was lost";
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "sub").value(), rig.first);
  EXPECT_EQ(rig.lookup(kOwner, rig.first, "f").value(), rig.first + 1);
}

TEST(LeasedNames, ANameThatIsRemovedTwiceIsRemovedOnceAndANewOneStays) {
  NamesRig rig;
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  NamesRig::remove(request, rig.first, rig.directory, "f");
  NamesRig::add(request, rig.first + 1, rig.directory, "f");
  EXPECT_EQ(rig.write(request).value(), (Codes{Code::kOk, Code::kOk, Code::kOk}));
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "f").value(), rig.first + 1);
  proto::WriteNamesRequest again;
  NamesRig::remove(again, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(again).value(), Codes{Code::kOk}) << "the answer was lost";
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "f").value(), rig.first + 1) << "that is another file";
  EXPECT_EQ(rig.get(rig.first).error().code(), Code::kStale);
}

/// Messages of one session, some of which are delayed on a connection that the client has given up.
struct DelayedNames : NamesRig {
  Result<std::vector<Code>> make(uint64_t number, const std::string& name) {
    proto::WriteNamesRequest request;
    request.set_number(number);
    add(request, first, directory, name);
    return write(request);
  }
  Result<std::vector<Code>> set_mode(uint64_t number, uint32_t mode) {
    proto::WriteNamesRequest request;
    request.set_number(number);
    proto::NameChange& change = *request.add_changes();
    change.set_inode(first);
    change.mutable_attributes()->set_mode(mode);
    return write(request);
  }
};

TEST(LeasedNames, AMessageThatComesAfterALaterOneDoesNotBringARemovedNameBack) {
  DelayedNames rig;
  EXPECT_EQ(rig.make(1, "f").value(), Codes{Code::kOk});
  proto::WriteNamesRequest removal;
  removal.set_number(2);
  NamesRig::remove(removal, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(removal).value(), Codes{Code::kOk});
  EXPECT_EQ(rig.make(1, "f").error().code(), Code::kConflict);
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "f").error().code(), Code::kNotFound);
}

TEST(LeasedNames, AMessageThatComesAfterALaterOneDoesNotTakeAttributesBack) {
  DelayedNames rig;
  EXPECT_EQ(rig.make(1, "f").value(), Codes{Code::kOk});
  EXPECT_EQ(rig.set_mode(2, 0600).value(), Codes{Code::kOk});
  EXPECT_EQ(rig.set_mode(3, 0640).value(), Codes{Code::kOk});
  EXPECT_EQ(rig.set_mode(2, 0600).error().code(), Code::kConflict);
  EXPECT_EQ(rig.get(rig.first)->mode() & 0777, 0640u);
}

TEST(LeasedNames, AMessageThatComesTwiceIsNotCarriedOutTwice) {
  DelayedNames rig;
  EXPECT_EQ(rig.make(1, "f").value(), Codes{Code::kOk});
  EXPECT_EQ(rig.make(1, "f").value(), Codes{Code::kOk}) << "the answer was lost";
  proto::UnlinkRequest removal;
  removal.set_parent(rig.directory);
  removal.set_name("f");
  removal.mutable_change()->set_session(kOwner);
  removal.mutable_change()->set_number(2);
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kUnlink, removal));
  EXPECT_EQ(rig.make(1, "f").value(), Codes{Code::kStale})
      << "nothing came since but what is numbered otherwise";
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "f").error().code(), Code::kNotFound);
}

TEST(LeasedNames, AFileThatIsOpenOutlivesTheRemovalOfItsName) {
  NamesRig rig;
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  request.mutable_changes(0)->mutable_make()->set_hold_for(kOwner);
  NamesRig::remove(request, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(request).value(), (Codes{Code::kOk, Code::kOk}));
  const auto open = rig.get(rig.first);
  ASSERT_TRUE(open) << open.error();
  EXPECT_EQ(open->links(), 0u);
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "f").error().code(), Code::kNotFound);
}

TEST(LeasedNames, OnlyTheOwnerOfTheDirectoryRemovesAndNoDirectories) {
  NamesRig rig;
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  NamesRig::add(request, rig.first + 1, rig.directory, "sub", proto::Attributes::DIRECTORY);
  EXPECT_EQ(rig.write(request).value(), (Codes{Code::kOk, Code::kOk}));
  proto::WriteNamesRequest removal;
  NamesRig::remove(removal, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(removal, kOther).value(), Codes{Code::kLeaseLost});
  NamesRig::remove(removal, rig.first + 1, rig.directory, "sub");
  EXPECT_EQ(rig.write(removal).value(), (Codes{Code::kOk, Code::kIsDirectory}));
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "f").error().code(), Code::kNotFound);
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "sub").value(), rig.first + 1);
}

TEST(LeasedNames, WhatCannotBeIsRefusedAndTheRestIsDone) {
  NamesRig rig;
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  NamesRig::add(request, rig.first + 5000, rig.directory, "not-our-id");
  NamesRig::add(request, rig.first + 1, rig.directory, "f");
  NamesRig::add(request, rig.first + 2, 1, "not-our-directory");
  NamesRig::add(request, rig.first + 3, rig.directory, "g");
  EXPECT_EQ(rig.write(request).value(),
            (Codes{Code::kOk, Code::kInvalidArgument, Code::kAlreadyExists, Code::kLeaseLost, Code::kOk}));
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "g").value(), rig.first + 3);
  EXPECT_EQ(rig.lookup(kOwner, 1, "not-our-directory").error().code(), Code::kNotFound);
}

TEST(LeasedNames, ComeAlongWithTheBytesOfANewFileOrNothingIsDone) {
  NamesRig rig;
  const auto request = [&](uint64_t inode, const std::string& name, uint64_t number) {
    proto::WriteExtentsRequest request;
    request.mutable_change()->set_session(kOwner);
    request.mutable_change()->set_number(number);
    request.mutable_change()->set_generation(1);
    request.set_inode(inode);
    request.set_size_at_least(4);
    request.add_extents()->set_length(4);
    request.set_inline_data("four");
    request.set_inline_crc(crc32c(std::as_bytes(std::span(request.inline_data()))));
    request.mutable_names()->set_session(kOwner);
    NamesRig::add(*request.mutable_names(), inode, rig.directory, name);
    return request;
  };
  const auto send = [&](const proto::WriteExtentsRequest& request) {
    return rig.call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request);
  };
  const auto made = send(request(rig.first, "f", 2));
  ASSERT_TRUE(made) << made.error();
  ASSERT_EQ(made->names().changes_size(), 1);
  EXPECT_TRUE(made->names().changes(0).lease());
  EXPECT_EQ(made->attributes().size(), 4u);
  const auto again = send(request(rig.first, "f", 2));
  ASSERT_TRUE(again) << "the answer was lost: " << again.error();
  ASSERT_EQ(again->names().changes_size(), 1);
  EXPECT_EQ(again->names().changes(0).code(), static_cast<int>(Code::kOk));
  EXPECT_EQ(again->names().changes(0).attributes().inode(), rig.first);
  // The name is taken: neither the inode nor the bytes are there, and the lease of the inode is nobody's.
  EXPECT_EQ(send(request(rig.first + 1, "f", 3)).error().code(), Code::kAlreadyExists);
  EXPECT_FALSE(rig.meta->state().clients.leases.owns(InodeId{rig.first + 1}, kOwner));
  // The bytes make no sense: the name is not there.
  proto::WriteExtentsRequest odd = request(rig.first + 2, "g", 4);
  odd.set_inline_crc(7);
  EXPECT_EQ(send(odd).error().code(), Code::kCorrupt);
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "g").error().code(), Code::kNotFound);
  odd = request(rig.first + 2, "g", 4);
  odd.mutable_names()->set_session(kOther);
  EXPECT_EQ(send(odd).error().code(), Code::kInvalidArgument) << "names of another session";
  rig.restart();
  rig.heartbeat_all();
  for (const uint64_t session : {kOwner, kOther})
    KINTSUGI_EXPECT_OK(rig.keep(session, [](auto& request) { request.set_all(true); }));
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "f").value(), rig.first);
  EXPECT_EQ(rig.open("/d/f")->stripes(0).inline_data(), "four");
}

TEST(LeasedNames, AnIdOfAnotherSessionIsRefused) {
  NamesRig rig;
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(request, kOther).value(), Codes{Code::kLeaseLost}) << "not its directory either";
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_ends(true); }));
  EXPECT_EQ(rig.write(request, kOther).error().code(), Code::kUnavailable) << "there is no such session";
}

TEST(LeasedNames, AnOwnerThatWasSilentIsRefusedLater) {
  NamesRig rig;
  rig.lose_lease();
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(request).value(), Codes{Code::kLeaseLost})
      << "another has been told that there is no such name";
}

TEST(LeasedNames, WhoLostALeaseBySilenceDoesNotHaveItAfterARestartEither) {
  NamesRig rig;
  rig.lose_lease();
  rig.restart();
  // It has not heard of that, nor of the restart, and is the first to tell.
  const auto tell = [&](auto fill) { return rig.keep(kOwner, fill); };
  KINTSUGI_EXPECT_OK(tell([](auto&) {}));
  KINTSUGI_EXPECT_OK(tell([&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.directory);
  }));
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_all(true); }));
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(request).value(), Codes{Code::kLeaseLost})
      << "another has been told that there is no such name";
  // Once it knows, it is believed again.
  KINTSUGI_EXPECT_OK(tell([&](auto& request) { request.add_give_back(rig.directory); }));
  EXPECT_FALSE(rig.meta->state().clients.sessions.has_lost(kOwner));
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_all(true); }));
  KINTSUGI_EXPECT_OK(tell([&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.first + 7);
  }));
  EXPECT_TRUE(rig.meta->state().clients.leases.owns(InodeId{rig.first + 7}, kOwner));
}

TEST(LeasedNames, AfterARestartTheyComeOnceTheSessionHasToldOfItsLeases) {
  NamesRig rig;
  rig.restart();
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "f");
  EXPECT_EQ(rig.write(request).error().code(), Code::kUnavailable);
  EXPECT_EQ(rig.lookup(kOther, rig.directory, "f").error().code(), Code::kDeadlineExceeded);
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.directory);
  }));
  EXPECT_EQ(rig.write(request).value(), Codes{Code::kOk});
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_all(true); }));
  EXPECT_EQ(rig.lookup(kOwner, rig.directory, "f").value(), rig.first);
}

TEST(LeasedNames, WhatWasWrittenBeforeARestartAndIsWrittenAgainKeepsItsLease) {
  NamesRig rig;
  proto::WriteNamesRequest request;
  NamesRig::add(request, rig.first, rig.directory, "sub", proto::Attributes::DIRECTORY);
  EXPECT_EQ(rig.write(request).value(), Codes{Code::kOk});
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_all(true); }));
  // The answer was lost, so that the session does not tell of the lease of what it made.
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.directory);
  }));
  NamesRig::add(request, rig.first + 1, rig.first, "f");
  EXPECT_EQ(rig.write(request).value(), (Codes{Code::kOk, Code::kOk}));
  EXPECT_EQ(rig.lookup(kOwner, rig.first, "f").value(), rig.first + 1);
}

}  // namespace
}  // namespace kintsugi::metaserver
