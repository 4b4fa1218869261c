// Whoever follows a process at its address waits until that one has let go, and not for ever.
#include "common/runtime/production/patient_listen.h"

#include <future>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

namespace kintsugi::runtime {
namespace {

using boost::asio::ip::tcp;

TEST(ListenPatiently, GetsTheAddressOnceItIsFreeAndAnErrorWhenItStaysTaken) {
  boost::asio::io_context io;
  const auto open = [&] {
    tcp::acceptor acceptor(io);
    acceptor.open(tcp::v4());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    return acceptor;
  };
  tcp::acceptor former = open(), next = open(), third = open();
  boost::system::error_code error;
  listen_patiently(former, {boost::asio::ip::address_v4::loopback(), 0}, error);
  ASSERT_FALSE(error) << error.message();
  const tcp::endpoint address = former.local_endpoint();
  auto leaves = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    former.close();
  });
  listen_patiently(next, address, error);
  EXPECT_FALSE(error) << error.message();
  leaves.get();
  listen_patiently(third, address, error);
  EXPECT_EQ(error, boost::asio::error::address_in_use);
}

}  // namespace
}  // namespace kintsugi::runtime
