// What kernels may believe: whoever changes it is answered once they have heard of it, or can believe nothing any more.
#include "metaserver/sessions/promises.h"

#include <algorithm>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "common/base/crc32c.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kHolder = 5, kChanger = 6, kRoot = 1;

struct PromiseRig : MetaServerRig {
  PromiseRig() {
    KINTSUGI_EXPECT_OK(put("/f"));
    file = open("/f")->attributes().inode();
    for (const uint64_t session : {kHolder, kChanger})
      keep(session, 0);
  }

  void keep(uint64_t session, uint64_t heard, bool believes = true) {
    proto::KeepSessionRequest request;
    request.set_session(session);
    request.set_all(true);
    request.set_believes(believes);
    request.set_heard(heard);
    KINTSUGI_EXPECT_OK(status_of(call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request)));
  }
  void look(uint64_t session, const std::string& name) {
    proto::LookupRequest request;
    request.set_parent(kRoot);
    request.set_name(name);
    request.set_session(session);
    (void)call<proto::InodeResponse>(rpc::Method::kLookup, request);
  }
  Status chmod(uint64_t session, uint32_t mode) {
    proto::SetAttributesRequest request;
    request.mutable_change()->set_session(session);
    request.mutable_change()->set_number(++number);
    request.set_inode(file);
    request.set_mode(mode);
    return status_of(call<proto::InodeResponse>(rpc::Method::kSetAttributes, request));
  }
  /// Gives the file extents of one byte each, so far apart.
  Status scatter(uint64_t extents, uint64_t apart) {
    proto::WriteExtentsRequest request;
    request.set_inode(file);
    for (uint64_t i = 0; i < extents; ++i) {
      proto::Extent& extent = *request.add_extents();
      extent.set_file_offset(i * apart);
      extent.set_length(1);
    }
    request.set_size_at_least(extents * apart);
    const std::string bytes(extents, 'x');
    request.set_inline_data(bytes);
    request.set_inline_crc(crc32c(std::as_bytes(std::span(bytes))));
    return status_of(call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request));
  }
  proto::MakeInodeRequest making(uint64_t session, const std::string& name) {
    proto::MakeInodeRequest request;
    request.mutable_change()->set_session(session);
    request.mutable_change()->set_number(++number);
    request.set_parent(kRoot);
    request.set_name(name);
    request.set_type(proto::Attributes::FILE);
    request.set_mode(0644);
    return request;
  }
  Status make(uint64_t session, const std::string& name) {
    return status_of(call<proto::InodeResponse>(rpc::Method::kMakeInode, making(session, name)));
  }
  Status move(uint64_t session, uint64_t from, const std::string& name, uint64_t to,
              const std::string& to_name) {
    proto::MoveRequest request;
    request.mutable_change()->set_session(session);
    request.mutable_change()->set_number(++number);
    request.set_parent(from);
    request.set_name(name);
    request.set_to_parent(to);
    request.set_to_name(to_name);
    return status_of(call<proto::Empty>(rpc::Method::kMove, request));
  }
  /// The reader believes a name of the root, and hears that it is changed: it is told no names there for a while.
  void share_root() {
    look(kHolder, "absent");
    std::optional<Status> made;
    asio::co_spawn(client_node.runtime().executor, make_in_background(making(kChanger, "absent"), made),
                   asio::detached);
    keep(kHolder, await_news(kHolder, 0).number());
    simulation.run_for(Promises::kHolds);
    KINTSUGI_EXPECT_OK(*made);
  }
  asio::awaitable<void> make_in_background(proto::MakeInodeRequest request, std::optional<Status>& ended) {
    proto::InodeResponse response;
    ended = co_await call_async(rpc::Method::kMakeInode, request, response);
  }
  asio::awaitable<void> set_in_background(proto::SetAttributesRequest request, std::optional<Status>& ended) {
    proto::InodeResponse response;
    ended = co_await call_async(rpc::Method::kSetAttributes, request, response);
  }
  asio::awaitable<void> commit_in_background(proto::CommitFileRequest request, std::optional<Status>& ended) {
    proto::CommitFileResponse response;
    ended = co_await call_async(rpc::Method::kCommitFile, request, response);
  }
  asio::awaitable<void> get_in_background(proto::GetInodeRequest request, std::optional<Status>& ended) {
    proto::InodeResponse response;
    ended = co_await call_async(rpc::Method::kGetInode, request, response);
  }
  proto::AwaitRecallsResponse await_news(uint64_t session, uint64_t after) {
    proto::AwaitRecallsRequest request;
    request.set_session(session);
    request.set_after(after);
    return *call<proto::AwaitRecallsResponse>(rpc::Method::kAwaitRecalls, request);
  }
  /// How long a call takes, in virtual time.
  template <class Call>
  Duration took(const Call& call) {
    const TimePoint begin = simulation.now();
    KINTSUGI_EXPECT_OK(call());
    return simulation.now() - begin;
  }

  uint64_t file = 0, number = 0;
};

TEST(Promises, AChangeWaitsForWhomeverMayBelieveSomethingElseAndNotForLonger) {
  PromiseRig rig;
  EXPECT_LT(rig.took([&] { return rig.chmod(kChanger, 0600); }), 100ms) << "nobody was told anything";
  rig.look(kHolder, "f");
  rig.simulation.run_for(300ms);
  const Duration waited = rig.took([&] { return rig.chmod(kChanger, 0640); });
  EXPECT_GT(waited, Promises::kHolds - 400ms) << "the reader says nothing";
  EXPECT_LE(waited, Promises::kHolds);
  EXPECT_LT(rig.took([&] { return rig.chmod(kChanger, 0600); }), 100ms)
      << "it cannot believe anything any more";
  rig.simulation.run_for(2s);
  rig.look(kHolder, "f");
  EXPECT_LT(rig.took([&] { return rig.chmod(kHolder, 0600); }), 100ms) << "its own change it knows";
  rig.look(kHolder, "f");
  EXPECT_GT(rig.took([&] { return rig.chmod(0, 0640); }), 500ms) << "one without a session";
}

TEST(Promises, ARepetitionOfALongTruncationIsAnsweredOnceOthersHaveHeardOfItsEnd) {
  constexpr uint64_t kExtents = 1000, kApart = 10;
  for (Duration before_look{}; before_look < 4ms; before_look += 100us) {
    SCOPED_TRACE(fmt::format("{} us", before_look / 1us));
    PromiseRig rig;
    KINTSUGI_ASSERT_OK(rig.scatter(kExtents, kApart));
    proto::SetAttributesRequest cut;
    cut.mutable_change()->set_session(kChanger);
    cut.mutable_change()->set_number(++rig.number);
    cut.set_inode(rig.file);
    cut.set_size(15);
    // It is cut off in steps, and the call is sent once more meanwhile.
    std::optional<Status> first, again;
    asio::co_spawn(rig.client_node.runtime().executor, rig.set_in_background(cut, first), asio::detached);
    rig.simulation.run_for(500us);
    asio::co_spawn(rig.client_node.runtime().executor, rig.set_in_background(cut, again), asio::detached);
    rig.simulation.run_for(before_look);
    const TimePoint look = rig.simulation.now();
    proto::GetInodeRequest get;
    get.set_inode(rig.file);
    get.set_session(kHolder);
    const auto seen = rig.call<proto::InodeResponse>(rpc::Method::kGetInode, get);
    ASSERT_TRUE(seen);
    ASSERT_TRUE(rig.simulation.run_until([&] { return first || again; }, 10s));
    if (seen->attributes().size() > cut.size())
      EXPECT_GE(rig.simulation.now(), look + Promises::kHolds) << "the reader may still believe the old size";
    ASSERT_TRUE(rig.simulation.run_until([&] { return first && again; }, 10s));
    KINTSUGI_EXPECT_OK(*first);
    KINTSUGI_EXPECT_OK(*again);
  }
}

TEST(Promises, WhoHasHeardIsNotWaitedForAndIsToldWhichNames) {
  PromiseRig rig;
  rig.look(kHolder, "absent");
  std::optional<Status> made;
  asio::co_spawn(rig.client_node.runtime().executor,
                 rig.make_in_background(rig.making(kChanger, "absent"), made), asio::detached);
  const TimePoint begin = rig.simulation.now();
  const proto::AwaitRecallsResponse news = rig.await_news(kHolder, 0);
  ASSERT_EQ(news.changed_size(), 1);
  EXPECT_EQ(news.changed(0).inode(), kRoot);
  ASSERT_EQ(news.changed(0).names_size(), 1);
  EXPECT_EQ(news.changed(0).names(0), "absent");
  rig.simulation.run_for(100ms);
  EXPECT_FALSE(made) << "the reader's kernel may still believe it";
  rig.keep(kHolder, news.number());
  rig.simulation.run_for(100ms);
  ASSERT_TRUE(made);
  KINTSUGI_EXPECT_OK(*made);
  EXPECT_LT(rig.simulation.now() - begin, 500ms);
  // Whoever has heard so believes no names there for a while, once those are over that it believed before.
  rig.simulation.run_for(Promises::kHolds);
  rig.look(kHolder, "another");
  EXPECT_LT(rig.took([&] { return rig.make(kChanger, "another"); }), 100ms);
  rig.simulation.run_for(kShared);
  rig.look(kHolder, "third");
  EXPECT_GT(rig.took([&] { return rig.make(kChanger, "third"); }), 500ms) << "that while is over";
}

TEST(Promises, ManyLongNamesAreToldInSeveralAnswers) {
  PromiseRig rig;
  rig.look(kHolder, "absent");
  constexpr size_t kNames = 100;
  std::vector<std::optional<Status>> made(kNames);
  for (size_t i = 0; i < kNames; ++i) {
    const std::string name = std::to_string(100 + i) + std::string(250, 'x');
    asio::co_spawn(rig.client_node.runtime().executor,
                   rig.make_in_background(rig.making(kChanger, name), made[i]), asio::detached);
  }
  rig.simulation.run_for(100ms);
  std::set<std::string> told;
  uint64_t heard = 0;
  for (int answers = 0; told.size() < kNames && answers < 10; ++answers) {
    const proto::AwaitRecallsResponse news = rig.await_news(kHolder, heard);
    EXPECT_LE(news.ByteSizeLong(), 20u << 10);
    for (const proto::ChangedInode& changed : news.changed())
      told.insert(changed.names().begin(), changed.names().end());
    heard = news.number();
  }
  EXPECT_EQ(told.size(), kNames);
  rig.keep(kHolder, heard);
  EXPECT_TRUE(rig.simulation.run_until(
      [&] { return std::ranges::all_of(made, [](const auto& one) { return one && one->ok(); }); }));
}

TEST(Promises, WhoMovesANameInADirectoryThatOthersWorkInIsNotWaitedFor) {
  PromiseRig rig;
  rig.share_root();
  KINTSUGI_EXPECT_OK(rig.make(kHolder, "mine"));
  KINTSUGI_EXPECT_OK(rig.move(kHolder, kRoot, "mine", kRoot, "moved"));
  EXPECT_LT(rig.took([&] { return rig.make(kChanger, "next"); }), 100ms);
  rig.look(kHolder, "another");
  EXPECT_LT(rig.took([&] { return rig.make(kChanger, "another"); }), 100ms) << "it is shared as before";
}

TEST(Promises, ANameThatIsMovedIntoADirectoryThatOthersWorkInIsBelievedAsBefore) {
  PromiseRig rig;
  proto::MakeInodeRequest request = rig.making(kHolder, "d");
  request.set_type(proto::Attributes::DIRECTORY);
  request.set_mode(0755);
  const auto directory = rig.call<proto::InodeResponse>(rpc::Method::kMakeInode, request);
  ASSERT_TRUE(directory);
  const uint64_t mine = directory->attributes().inode();
  rig.share_root();
  request = rig.making(kHolder, "f");
  request.set_parent(mine);
  KINTSUGI_EXPECT_OK(rig.status_of(rig.call<proto::InodeResponse>(rpc::Method::kMakeInode, request)));
  KINTSUGI_EXPECT_OK(rig.move(kHolder, mine, "f", kRoot, "g"));
  const Duration waited = rig.took([&] { return rig.move(kChanger, kRoot, "g", kRoot, "h"); });
  EXPECT_GT(waited, 500ms) << "the kernel of the reader may believe that there is a g";
  // And back: it believes nothing any more of a name that it was told in the shared directory.
  rig.simulation.run_for(Promises::kHolds);
  KINTSUGI_EXPECT_OK(rig.move(kHolder, kRoot, "h", mine, "f"));
  EXPECT_LT(rig.took([&] { return rig.move(kChanger, mine, "f", mine, "e"); }), 100ms);
}

TEST(Promises, ASessionThatComesBackAfterItsEndIsToldOfChangesAgain) {
  PromiseRig rig;
  const auto hear_of_a_change = [&](uint64_t after) -> uint64_t {
    rig.look(kHolder, "f");
    std::optional<Status> changed;
    proto::SetAttributesRequest request;
    request.mutable_change()->set_session(kChanger);
    request.mutable_change()->set_number(++rig.number);
    request.set_inode(rig.file);
    request.set_mode(0600);
    asio::co_spawn(rig.client_node.runtime().executor, rig.set_in_background(request, changed),
                   asio::detached);
    rig.simulation.run_for(10ms);
    proto::AwaitRecallsRequest ask;
    ask.set_session(kHolder);
    ask.set_after(after);
    const auto news = rig.call<proto::AwaitRecallsResponse>(rpc::Method::kAwaitRecalls, ask);
    const uint64_t number = news ? news->number() : 0;
    rig.keep(kHolder, number);
    rig.simulation.run_for(1500ms);
    EXPECT_TRUE(changed);
    return number;
  };
  const uint64_t before = hear_of_a_change(0);
  EXPECT_GT(before, 0u);
  const int seconds = std::chrono::duration_cast<std::chrono::seconds>(Sessions::kIdle).count();
  for (int second = 0; rig.meta->state().clients.sessions.known(kHolder) && second < seconds + 5; ++second) {
    rig.keep(kChanger, 0);
    rig.pass(1);
  }
  ASSERT_FALSE(rig.meta->state().clients.sessions.known(kHolder)) << "it was silent";
  rig.keep(kHolder, 0);
  EXPECT_GT(hear_of_a_change(before), before);
}

TEST(Promises, ASessionThatAnEarlierProcessToldLaterNumbersHearsOfChanges) {
  PromiseRig rig;
  rig.look(kHolder, "f");
  std::optional<Status> ended;
  proto::SetAttributesRequest request;
  request.set_inode(rig.file);
  request.set_mode(0600);
  asio::co_spawn(rig.client_node.runtime().executor, rig.set_in_background(request, ended), asio::detached);
  rig.simulation.run_for(100ms);
  EXPECT_FALSE(ended);
  proto::AwaitRecallsResponse news;
  EXPECT_TRUE(rig.meta->state().clients.promises.tell(kHolder, UINT64_MAX, news))
      << "that one's clock was ahead";
  EXPECT_EQ(news.changed_size(), 1);
  rig.simulation.run_for(2s);
  EXPECT_TRUE(ended);
}

TEST(Promises, ASessionThatNeverSaidAnythingOfItselfMayBelieveWhenItEndsByItsSilence) {
  PromiseRig rig;
  constexpr uint64_t kMute = 7;
  proto::GetInodeRequest open;
  open.set_inode(rig.file);
  open.set_session(kMute);
  open.set_hold(true);
  ASSERT_TRUE(rig.call<proto::InodeResponse>(rpc::Method::kGetInode, open));
  for (int tenth = 0; rig.meta->state().clients.sessions.known(kMute) && tenth < 700; ++tenth) {
    if (tenth % 50 == 0) rig.keep(kChanger, 0);
    rig.look(kMute, "f");
    rig.simulation.run_for(100ms);
  }
  ASSERT_FALSE(rig.meta->state().clients.sessions.known(kMute)) << "it was silent";
  EXPECT_GT(rig.took([&] { return rig.chmod(kChanger, 0600); }), 500ms);
}

TEST(Promises, OnlyTheSessionThatIsToHearOfAChangeIsWoken) {
  PromiseRig rig;
  const auto poll = [](PromiseRig& rig, uint64_t session) -> asio::awaitable<void> {
    proto::AwaitRecallsRequest request;
    request.set_session(session);
    proto::AwaitRecallsResponse response;
    (void)co_await rig.call_async(rpc::Method::kAwaitRecalls, request, response);
  };
  constexpr uint64_t kThird = 7;
  rig.keep(kThird, 0);
  for (const uint64_t session : {kHolder, kThird})
    asio::co_spawn(rig.client_node.runtime().executor, poll(rig, session), asio::detached);
  rig.look(kHolder, "f");
  Sessions& sessions = rig.meta->state().clients.sessions;
  const std::shared_ptr<runtime::Event> of_reader = sessions.find(kHolder)->news,
                                        of_third = sessions.find(kThird)->news;
  ASSERT_EQ(of_reader->waiting() + of_third->waiting(), 2u);
  KINTSUGI_EXPECT_OK(rig.chmod(kChanger, 0600));
  EXPECT_EQ(of_reader->waiting(), 0u);
  EXPECT_EQ(of_third->waiting(), 1u);
}

TEST(Promises, WhatWasToldBeforeAStartOfTheMetaserverHolds) {
  PromiseRig rig;
  rig.look(kHolder, "f");
  rig.restart();
  rig.heartbeat_all();
  for (const uint64_t session : {kHolder, kChanger})
    rig.keep(session, 0);
  const TimePoint begin = rig.simulation.now();
  KINTSUGI_EXPECT_OK(rig.chmod(kChanger, 0600));
  EXPECT_GT(rig.simulation.now() - begin, 700ms);
}

TEST(Promises, AWriteLeaseIsGivenOnceNobodyBelievesAnythingOfTheFile) {
  PromiseRig rig;
  rig.look(kHolder, "f");
  proto::GetInodeRequest request;
  request.set_inode(rig.file);
  request.set_session(kChanger);
  request.set_hold(true);
  request.set_lease(true);
  const TimePoint begin = rig.simulation.now();
  const auto got = rig.call<proto::InodeResponse>(rpc::Method::kGetInode, request);
  ASSERT_TRUE(got) << got.error();
  EXPECT_TRUE(got->lease());
  EXPECT_GT(rig.simulation.now() - begin, 700ms) << "its owner changes it without a word to the metaserver";
}

TEST(Promises, ClientsWithoutAKernelAreNotWaitedFor) {
  PromiseRig rig;
  rig.keep(kHolder, 0, false);
  rig.look(kHolder, "f");
  EXPECT_LT(rig.took([&] { return rig.chmod(kChanger, 0600); }), 100ms);
}

TEST(Promises, ASecondAndAThirdChangeAndALeaseWaitForWhoHasNotHeardOfTheFirst) {
  PromiseRig rig;
  rig.look(kHolder, "f");
  std::optional<Status> ended[3];
  for (int i = 0; i < 3; ++i) {
    proto::SetAttributesRequest request;
    request.mutable_change()->set_session(kChanger + i);
    request.mutable_change()->set_number(++rig.number);
    request.set_inode(rig.file);
    request.set_mode(0600 + i);
    asio::co_spawn(rig.client_node.runtime().executor, rig.set_in_background(request, ended[i]),
                   asio::detached);
    rig.simulation.run_for(50ms);
  }
  std::optional<Status> leased;
  proto::GetInodeRequest wanted;
  wanted.set_inode(rig.file);
  wanted.set_session(kChanger);
  wanted.set_hold(true);
  wanted.set_lease(true);
  asio::co_spawn(rig.client_node.runtime().executor, rig.get_in_background(wanted, leased), asio::detached);
  rig.simulation.run_for(50ms);
  for (const auto& one : ended)
    EXPECT_FALSE(one) << "the reader's kernel believes what was before all of them";
  EXPECT_FALSE(leased);
  const proto::AwaitRecallsResponse news = rig.await_news(kHolder, 0);
  rig.keep(kHolder, news.number());
  rig.simulation.run_for(50ms);
  for (const auto& one : ended) {
    ASSERT_TRUE(one);
    KINTSUGI_EXPECT_OK(*one);
  }
  ASSERT_TRUE(leased);
  KINTSUGI_EXPECT_OK(*leased);
}

TEST(Promises, AFileThatIsPutOnceMoreWaitsForWhoHasNotHeardOfTheFirstTime) {
  PromiseRig rig;
  rig.look(kHolder, "g");
  const auto allocated = rig.allocate("/g");
  ASSERT_TRUE(allocated) << allocated.error();
  const proto::CommitFileRequest request =
      rig.commit_request("/g", allocated->upload_id(), {rig.write(*allocated, 300'000)});
  std::optional<Status> first;
  asio::co_spawn(rig.client_node.runtime().executor, rig.commit_in_background(request, first),
                 asio::detached);
  rig.simulation.run_for(100ms);
  EXPECT_FALSE(first)
      << "the reader believes that there is no such name, and has not heard: this shows nothing";
  // The connection broke, and the client sends it once more.
  const Duration waited = rig.took([&] { return rig.status_of(rig.commit(request)); });
  EXPECT_GT(waited, Promises::kHolds - 400ms) << "the reader still believes that there is no such name";
  EXPECT_LE(waited, Promises::kHolds);
  rig.simulation.run_for(100ms);
  KINTSUGI_EXPECT_OK(first.value_or(Status{Code::kDeadlineExceeded, "it has not ended"}));
}

TEST(Promises, ALaterChangeWaitsAsLongForASessionThatCannotBeTold) {
  PromiseRig rig;
  constexpr uint64_t kUnknown = 99;  // it has said nothing of itself
  rig.look(kUnknown, "f");
  const TimePoint looked = rig.simulation.now();
  std::optional<Status> first;
  proto::SetAttributesRequest request;
  request.mutable_change()->set_session(kChanger);
  request.mutable_change()->set_number(++rig.number);
  request.set_inode(rig.file);
  request.set_mode(0600);
  asio::co_spawn(rig.client_node.runtime().executor, rig.set_in_background(request, first), asio::detached);
  rig.simulation.run_for(50ms);
  KINTSUGI_EXPECT_OK(rig.chmod(7, 0640));
  EXPECT_GT(rig.simulation.now() - looked, kBelieved);
  EXPECT_TRUE(first);
}

}  // namespace
}  // namespace kintsugi::metaserver
