// What becomes of names that the metaserver does not take.
#include "client/lib/leases/unsent_names.h"

#include <gtest/gtest.h>

#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

class NobodyElse final : public LeaseUser {
 public:
  void on_recalled(const std::vector<uint64_t>&) override {}
  void on_lost(const std::vector<uint64_t>&) override {}
  void end_leases(const std::vector<uint64_t>&) override {}
  void want_lease(uint64_t) override {}
  void on_refused(uint64_t, const Status&) override {}
  void on_attributes_refused(uint64_t, const Status&) override {}
  void on_written(const proto::Attributes&, bool) override {}
};

class UnsentNamesOf : public testing::Test, private NameChangesHearer {
 protected:
  UnsentNamesOf() { unsent.set_hearer(*this); }
  ~UnsentNamesOf() override {
    cluster.run(tasks.stop());
    cluster.run(session.stop());
    resources.background.request_stop();
    cluster.run(calls_stop());
  }

  void make(uint64_t inode) {
    proto::NameChange change;
    change.set_inode(inode);
    change.mutable_make()->set_name("f" + std::to_string(inode));
    EXPECT_TRUE(unsent.append(std::move(change)));
  }
  Status flush() { return cluster.run(unsent.flush(Context{})); }

  FakeCluster cluster{1};
  simulation::SimNode node{cluster.simulation, "another"};
  Resources resources{node.runtime(), options(), {}};
  NobodyElse user;
  Session session{resources, user};
  RepeatedCalls calls{resources, 1s};
  runtime::TaskGroup tasks{node.runtime()};
  UnsentNames unsent{resources, session, calls, tasks, {}};
  std::vector<Code> heard;  ///< what became of each change

 private:
  void carried_out(const proto::NameChange&, const proto::WriteNamesResponse::Written& written,
                   bool) override {
    heard.push_back(static_cast<Code>(written.code()));
  }
  Options options() {
    Options options;
    options.metaserver = cluster.meta.endpoint();
    options.memory_bytes = kMinMemoryBytes;
    return options;
  }
  asio::awaitable<void> calls_stop() {
    co_await resources.rpc.stop();
    co_await resources.background.join();
  }
};

TEST_F(UnsentNamesOf, AClientThatMayNotWriteNamesAreGivenUpAndItGoesOn) {
  make(7);
  make(8);
  cluster.meta.refuses_names = {Code::kAccessDenied, "is outside of the token's path"};
  KINTSUGI_EXPECT_OK(flush());
  EXPECT_EQ(heard, (std::vector{Code::kAccessDenied, Code::kAccessDenied}));
  EXPECT_FALSE(unsent.pending());
  // Its token has another role by now.
  make(9);
  cluster.meta.refuses_names = {Code::kPermissionDenied, "the token may only read"};
  KINTSUGI_EXPECT_OK(flush());
  EXPECT_EQ(heard.size(), 3u);
  EXPECT_FALSE(unsent.pending());
  make(10);
  cluster.meta.refuses_names = {};
  KINTSUGI_EXPECT_OK(flush());
  EXPECT_EQ(heard.back(), Code::kOk);
}

TEST_F(UnsentNamesOf, AClientWhoseTokenHasEndedWaitForAnother) {
  make(7);
  cluster.meta.refuses_names = cluster.meta.refuses_pings = {Code::kPermissionDenied, "the token has ended"};
  EXPECT_EQ(flush().code(), Code::kPermissionDenied);
  EXPECT_TRUE(unsent.pending());
  EXPECT_TRUE(heard.empty());
  cluster.meta.refuses_names = cluster.meta.refuses_pings = {};
  KINTSUGI_EXPECT_OK(flush());
  EXPECT_EQ(heard, std::vector{Code::kOk});
}

TEST_F(UnsentNamesOf, AClientWaitWhileTheMetaserverIsNotReady) {
  make(7);
  cluster.meta.refuses_names = {Code::kUnavailable, "the session is not known"};
  EXPECT_EQ(flush().code(), Code::kUnavailable);
  EXPECT_TRUE(unsent.pending());
  cluster.meta.refuses_names = {};
  KINTSUGI_EXPECT_OK(flush());
  EXPECT_FALSE(unsent.pending());
}

}  // namespace
}  // namespace kintsugi::client
