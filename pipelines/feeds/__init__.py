"""Where do rows come from: files, and directories that files arrive in?"""
