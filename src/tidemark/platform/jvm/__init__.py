"""Java, the jars and what is compiled or asked of the JVM."""
