// What a command takes from daemons that recorded for it. Made-up daemons say what real ones would.
#include "client/cli/traced_daemon.h"

#include <filesystem>
#include <list>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/rpc/server.h"
#include "common/runtime/production/run.h"
#include "tests/expect_ok.h"

namespace kintsugi::cli {
namespace {

constexpr uint64_t kOwner = 77;

class TracedDaemons : public testing::Test {
 protected:
  TracedDaemons() { std::filesystem::create_directory(directory_); }
  ~TracedDaemons() override {
    for (rpc::Server& server : servers_)
      runtime::run_on(production_, server.stop());
    std::filesystem::remove_all(directory_);
  }
  /// A daemon that says this of its recording. Returns its address.
  std::string daemon(proto::TraceResponse says) {
    rpc::Server& server = servers_.emplace_back(production_.runtime(), rpc::Secret(), nullptr);
    server.handle(rpc::Method::kTrace,
                  [says = std::move(says)](Context, const proto::TraceRequest& request,
                                           proto::TraceResponse& response) -> asio::awaitable<Status> {
                    response = says;
                    if (request.action() == proto::TraceRequest::READ && request.offset() == 0)
                      response.set_data("records");
                    co_return Status{};
                  });
    const auto start = [&]() -> asio::awaitable<Status> { co_return server.start({"127.0.0.1", 0}); };
    KINTSUGI_EXPECT_OK(runtime::run_on(production_, start()));
    return server.local_endpoint().to_string();
  }
  static proto::TraceResponse ended(uint64_t process) {
    proto::TraceResponse says;
    says.set_phase(proto::TraceResponse::ENDED);
    says.set_owner(kOwner);
    says.set_path("/dev/shm/kintsugi-0/kintsugi-chunkserver-1-1.trace");
    says.set_process(process);
    says.set_end(proto::TraceResponse::DETACHED);
    return says;
  }
  static void followed_to(proto::TraceResponse& says, const std::string& address) {
    says.add_followed()->set_address(address);
  }
  TracedDaemon asked(const std::string& address, uint64_t owner) {
    return TracedDaemon(client_, *runtime::Endpoint::parse(address)).for_owner(owner);
  }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("kintsugi-traced-daemon-" + std::to_string(::getpid()));
  runtime::ProductionRuntime production_;
  runtime::LoopThread loop_{production_};
  std::list<rpc::Server> servers_;
  client::BlockingClient client_{{.metaserver = {"127.0.0.1", 1}}, rpc::Secret()};
};

TEST_F(TracedDaemons, InTwoContainersWithOnePidAreTwo) {
  // Both are process 1 of their container, so their traces have the same path. The third is the first one again.
  proto::TraceResponse origin = ended(1), again = ended(1);
  const std::string first = daemon(ended(2)), second = daemon(ended(3)), itself = daemon(again);
  for (const std::string& address : {first, second, itself})
    followed_to(origin, address);
  const std::vector<FollowedProcess> found = end_followed(client_, origin, directory_ / "trace");
  ASSERT_EQ(found.size(), 2) << to_text(found);
  for (const std::string& address : {first, second})
    EXPECT_TRUE(std::filesystem::exists(directory_ / ("trace." + address))) << to_text(found);
}

TEST_F(TracedDaemons, ThatWereStartedAgainKnowNothingOfTheRecording) {
  proto::TraceResponse says = ended(1);
  says.set_owner(0);
  const std::string address = daemon(says);
  const auto status = asked(address, kOwner).own_status();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kConflict);
  EXPECT_TRUE(asked(daemon(ended(1)), kOwner).own_status());
}

TEST(TracedDaemon, SaysWhatATraceLacks) {
  const auto lack = [](proto::TraceResponse::End end) {
    proto::TraceResponse answer;
    answer.set_end(end);
    return lack_of(answer);
  };
  EXPECT_EQ(lack(proto::TraceResponse::DETACHED), "");
  EXPECT_EQ(lack(proto::TraceResponse::DEADLINE), "");
  EXPECT_EQ(lack(proto::TraceResponse::FULL), "; its memory was full, so what came later is missing");
  EXPECT_EQ(lack(proto::TraceResponse::DETACHED_BY_OTHER),
            "; another command ended it, so what came later is missing");
}

}  // namespace
}  // namespace kintsugi::cli
